// What one expert's tensor on one rank is found to be: plain data, so that ranks can send it to
// each other as bytes and one of them can name what all have found.
#pragma once

#include <type_traits>

#include "base/digest.h"
#include "verify/map.h"

namespace slicecheck::verify {

/// The causes that bytes alone can show, in the order in which one is preferred to another that
/// gives the same bytes.
enum class Cause : std::uint8_t {
  gate_up_swapped,
  gate_up_concatenated,
  rows_not_shuffled,
  rows_shuffled_twice,
  rows_shuffled_inverse,
  rows_shuffled_by_16,
  scales_linear,
  scales_interleaved_twice,
  scales_8x4,
  scale_rows_not_shuffled,
  not_converted,
  nibbles_swapped,
  flat_cut,
  cut_before_interleave,
  wrong_axis_cut,
  wrong_slice,
  expert_offset_drift,
  padding_misplaced,
  padding_dirty,
  permutation_of_other_shape,
  never_written,
  payload_of_other_layer,
  bit_corruption,
  unexplained,
  placement_round_robin,
  placement_permuted,
  expert_duplicated,
  expert_mixed,
  rank_order,
  block_scale_invalid,
  block_scale_saturated
};

/// The catalogue's name: "gate-up-swapped".
std::string_view name(Cause cause);

/// A set of causes.
class Causes {
 public:
  constexpr void add(Cause cause) { bits_ |= bit(cause); }
  constexpr void remove(Cause cause) { bits_ &= ~bit(cause); }
  constexpr bool has(Cause cause) const { return (bits_ & bit(cause)) != 0; }
  constexpr int count() const { return __builtin_popcountll(bits_); }
  constexpr Causes both(Causes other) const { return Causes(bits_ & other.bits_); }
  constexpr Causes either(Causes other) const { return Causes(bits_ | other.bits_); }
  constexpr bool operator==(const Causes&) const = default;
  constexpr bool operator<(const Causes& other) const { return bits_ < other.bits_; }
  std::vector<Cause> list() const;
  constexpr Causes() = default;

 private:
  explicit constexpr Causes(std::uint64_t bits) : bits_(bits) {}
  static constexpr std::uint64_t bit(Cause cause) {
    return std::uint64_t{1} << static_cast<int>(cause);
  }
  std::uint64_t bits_ = 0;
};

/// A traced unit: whose byte lies at the first difference.
struct TracedOrigin {
  bool found = false;
  bool ambiguous = false;
  bool has_seed = false;
  std::uint64_t seed = 0;
  std::int64_t expert = 0;
  layout::PlainPlace place;
};

/// One expert's tensor that is not what it must be. `causes` are what explains it: the deviations
/// of `map`, and what is said of the bytes beside. Trivially copyable.
struct WrongTensor {
  Target target;
  Map map;
  Causes causes;
  Causes alternatives;  // single causes that give the same bytes
  std::int64_t bytes = 0;
  std::int64_t differing = 0;
  std::int64_t explained = 0;
  std::int64_t first = 0;  // differing offsets [first, last]
  std::int64_t last = 0;
  std::int64_t beside = 0;  // bytes that causes beside the map explain
  std::int64_t shift = 0;   // of a drift, in bytes
  std::int64_t twin = -1;   // of what is unexplained: the one expert with the same due bytes here
  layout::Widths data;      // before padding, where they are others than is declared
  std::uint64_t seed = 0;   // of another payload; unknown: its scale_key_rest()
  bool seed_known = false;
  bool histogram_kept = false;
  bool same_in_every_row = false;
  bool axes_exchanged = false;  // a wrong slice by the transposed receive buffer
  std::uint8_t value = 0;       // constant byte, or the one xor of all differing bytes
  std::uint8_t shown = 0;       // bytes of want and got
  std::array<std::uint8_t, 16> want{};
  std::array<std::uint8_t, 16> got{};
  TracedOrigin origin;
  Digest pattern;  // of the differing offsets
  Digest digest;   // of the tensor as it is
};
static_assert(std::is_trivially_copyable_v<WrongTensor>);

/// What a correct cut of a wrong stock tensor would be: it excuses a tp tensor. Trivially copyable.
struct CutOfWrongStock {
  layout::Kind kind = layout::Kind::w13;
  std::int64_t expert = 0;
  std::int64_t rank = 0;  // that gets the slice
  Digest digest;
};
static_assert(std::is_trivially_copyable_v<CutOfWrongStock>);

/// The single causes that a map deviates by.
Causes causes_of(const Target& target, const Map& map);

}  // namespace slicecheck::verify
