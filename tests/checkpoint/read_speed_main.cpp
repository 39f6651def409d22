// Reads every byte of a safetensors file in pieces of 128 KiB, as cat does: read_speed FILE.
#include <algorithm>
#include <cstdio>

#include "checkpoint/safetensors.h"

int main(int argc, char** argv) {
  using namespace slicecheck;
  if (argc != 2) return 2;
  const Result<checkpoint::Safetensors> file = checkpoint::Safetensors::open(argv[1]);
  if (file.reason) {
    std::fprintf(stderr, "%s\n", file.reason.text().c_str());
    return 2;
  }
  ByteVector piece(std::size_t{1} << 17);
  for (const checkpoint::TensorEntry& entry : file->tensors()) {
    for (std::int64_t at = 0; at < entry.bytes; at += static_cast<std::int64_t>(piece.size())) {
      const auto left = static_cast<std::size_t>(entry.bytes - at);
      const MutableBytes into = MutableBytes(piece).first(std::min(piece.size(), left));
      const Reason reason = file->read(entry, at, into);
      if (reason) {
        std::fprintf(stderr, "%s\n", reason.text().c_str());
        return 2;
      }
    }
  }
  return 0;
}
