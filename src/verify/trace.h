// From a byte back to its origin: an 8-byte word of a weight or a 4-byte unit of a scale is turned
// into the places of the plain experts that hold it. Of a payload run the rule is inverted; else an
// index of the reference's units is built when it is first asked.
#pragma once

#include "verify/reference.h"

namespace slicecheck::verify {

/// A unit of a plain expert: `byte` is its first byte in the row. `seed` where the rule gave it.
struct Origin {
  std::int64_t expert = 0;
  layout::PlainPlace place;
  std::optional<std::uint64_t> seed;
  constexpr bool operator==(const Origin&) const = default;
};

/// SplitMix64's and MurmurHash3's finalisers undone.
std::uint64_t unmixed64(std::uint64_t x);
std::uint32_t unmixed32(std::uint32_t x);

/// The seed of the payload that has `word` as word j of these weights.
std::uint64_t seed_of_word(std::uint64_t word, std::int64_t expert, layout::Projection projection,
                           std::int64_t j);

/// What `unit`, as scale unit g, says of its payload's key8: the low 32 bits of it (`bytes`) or its
/// rest modulo R; nothing for a unit that no numeric payload holds.
std::optional<std::uint64_t> scale_key_of_unit(std::uint32_t unit, std::int64_t g,
                                               layout::PayloadKind kind);

/// The same of a known seed, to compare with.
std::uint64_t scale_key_rest(std::uint64_t seed, layout::PayloadKind kind);

/// Finds origins of units. An index holds at most `entries_max` units (64 MiB): of a larger layer
/// it keeps those whose hash is a multiple of `stride()`, and finds only these.
class Tracer {
 public:
  explicit Tracer(Reference& reference) : reference_(reference) {}

  /// Places that hold the 8-byte word (weights) or 4-byte unit (scales) at `at`; at most a few.
  /// More than one, or one of a scale, is to be believed where its neighbours agree.
  std::vector<Origin> origins(bool scale, const std::uint8_t* at);

  /// True where origins() can say nothing of this unit: it is left out of the index.
  bool left_out(bool scale, const std::uint8_t* at);

  static constexpr std::int64_t entries_max = std::int64_t{1} << 22;

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t place = 0;
  };

  void build();
  void add(bool scale, const ByteVector& bytes, std::uint64_t place);
  Origin origin_of(std::uint64_t place, bool scale) const;
  Origin origin_of(std::int64_t expert, layout::Projection projection, bool scale,
                   std::int64_t j) const;
  std::vector<Origin> weight_by_rule(std::uint64_t word) const;
  std::vector<Origin> scale_by_rule(std::uint32_t unit) const;

  Reference& reference_;
  std::vector<Entry> index_[2];  // weights, scales; by key
  std::uint64_t stride_[2] = {0, 0};
};

}  // namespace slicecheck::verify
