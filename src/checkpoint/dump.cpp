#include "checkpoint/dump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "checkpoint/dump_files.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/shards.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;
using layout::Kind;

constexpr std::int64_t manifest_bytes_max = std::int64_t{16} << 20;

struct Member {
  std::string name;
  Tensor tensor;
};

Reason write_tensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                     const std::vector<Member>& members) {
  std::vector<TensorEntry> entries;
  for (const Member& member : members) {
    entries.push_back({member.name, element_of(member.tensor.dtype), member.tensor.extents, 0, 0});
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, metadata, std::move(entries));
  if (writer.reason) return writer.reason;
  for (const Member& member : members) {
    Reason reason = writer->add(host_bytes(member.tensor));
    if (reason) return reason;
  }
  return writer->finish();
}

// The four tensors and three scalars that either record holds.
template <typename Record>
std::vector<Member> members_of(const Record& record) {
  std::vector<Member> members;
  for (const Kind kind : layout::kinds) {
    members.push_back({std::string(layout::name(kind)), tensor_of(record, kind)});
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    members.push_back({std::string(experts::name(scalar)), tensor_of(record, scalar)});
  }
  return members;
}

}  // namespace

Reason claim_dump(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder)) {
    return Reason(fmt::format("--dump: {}: cannot be made a folder: {}", shown(folder),
                              failed ? failed.message() : "it is a file"));
  }
  const bool empty = fs::is_empty(folder, failed);
  if (failed) {
    return Reason(fmt::format("--dump: {}: cannot be read: {}", shown(folder), failed.message()));
  }
  if (!empty) return Reason(fmt::format("--dump: {}: is not empty", shown(folder)));
  return {};
}

Reason write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/manifest.json";
  const std::string text = manifest_text(manifest);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool written = descriptor >= 0 && ::write(descriptor, text.data(), text.size()) ==
                                              static_cast<ssize_t>(text.size());
  const bool closed = descriptor >= 0 && ::close(descriptor) == 0;
  if (written && closed) return {};
  return Reason(fmt::format("{}: cannot be written: {}", shown(path), strerror(errno)));
}

Reason write_stock(const std::string& folder, std::int64_t rank,
                   const experts::StockExperts& stock) {
  std::vector<Member> members = members_of(stock);
  members.push_back({"a1_gscale", stock.a1_gscale});
  members.push_back({"a2_gscale", stock.a2_gscale});
  return write_tensors(stock_path(folder, rank),
                       {{"first_expert", fmt::format("{}", stock.first_expert)}}, members);
}

Reason write_tp(const std::string& folder, std::int64_t rank, const experts::TpExperts& tp) {
  return write_tensors(tp_path(folder, rank),
                       {{"intermediate", fmt::format("{}", tp.intermediate)},
                        {"num_experts", fmt::format("{}", tp.num_experts)}},
                       members_of(tp));
}

Result<Manifest> read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  Reason reason = outside(folder, "manifest.json");
  if (reason) return Reason(fmt::format("{}: {}", shown(path), reason.text()));
  const Result<std::string> text = text_of(path, manifest_bytes_max);
  if (text.reason) return text.reason;
  Result<Manifest> manifest = manifest_of(*text);
  if (manifest.reason) return Reason(fmt::format("{}: {}", shown(path), manifest.reason.text()));
  return manifest;
}

}  // namespace slicecheck::checkpoint
