#include "base/digest.h"

#include <xxhash.h>

#include "base/must.h"

namespace slicecheck {
namespace {

Digest canonical(XXH128_hash_t hash) {
  XXH128_canonical_t form;
  XXH128_canonicalFromHash(&form, hash);
  Digest made;
  std::memcpy(made.bytes.data(), form.digest, made.bytes.size());
  return made;
}

}  // namespace

struct DigestStream::State {
  XXH3_state_t xxh;
};

Digest digest(Bytes bytes) { return canonical(XXH3_128bits(bytes.data(), bytes.size())); }

std::string hex(const Digest& digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

DigestStream::DigestStream() : state_(std::make_unique<State>()) {
  must(XXH3_128bits_reset(&state_->xxh) == XXH_OK, "XXH3 state cannot be reset");
}

DigestStream::~DigestStream() = default;

void DigestStream::add(Bytes bytes) {
  must(XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()) == XXH_OK,
       "XXH3 state cannot be updated");
}

Digest DigestStream::of() const { return canonical(XXH3_128bits_digest(&state_->xxh)); }

}  // namespace slicecheck
