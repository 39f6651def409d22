// What a faulty conversion would have put at a byte, as a closed index formula. A map is the
// healthy pipeline (source expert, slice, halves, interleave, shuffle, tiles) with some steps done
// another way; a cause of the catalogue is one such deviation. `faults` says the same by moving
// rows.
#pragma once

#include <optional>

#include "experts/experts.h"
#include "layout/place.h"

namespace slicecheck::verify {

enum class Side : std::uint8_t { stock, tp };

/// One expert's tensor as it lies on a rank: expert is the global slot.
struct Target {
  Side side = Side::tp;
  layout::Kind kind = layout::Kind::w13;
  std::int64_t rank = 0;  // in the group
  std::int64_t expert = 0;
};

/// The shape of the layer and, where its experts were padded, the widths of the data in them.
struct Case {
  layout::Shape shape;
  std::optional<layout::Widths> data;  // hidden_plain, intermediate_plain
};

constexpr layout::Widths widths_of(const Case& layer, Side side) {
  return side == Side::tp ? layout::tp_widths(layer.shape) : layout::stock_widths(layer.shape);
}

/// How the slice was taken: `due`; rows of the stacked [w3; w1]; equal runs of bytes; along the
/// other axis.
enum class CutWay : std::uint8_t { due, before_interleave, flat, other_axis };

/// The order of rows before the shuffle: alternating halves, halves one after the other, or the
/// halves of blocks of rows (the map of a smaller intermediate).
enum class RowOrder : std::uint8_t { due, other, blocks };

enum class Shuffle : std::uint8_t { due, none, twice, inverse, by_16 };
enum class Tiles : std::uint8_t { due, linear, twice, eight_by_four };
enum class Padding : std::uint8_t { due, together, after_cut };

/// The healthy pipeline, with what deviates. The default is healthy but for `expert` and `slice`,
/// which say whose bytes they are.
struct Map {
  std::int64_t expert = 0;
  std::int64_t slice = 0;       // tp only
  std::int64_t gate_ahead = 0;  // of w13: gate is of a slice so many further on, modulo tp
  std::int64_t block_rows = 0;  // of RowOrder::blocks
  CutWay cut = CutWay::due;
  RowOrder order = RowOrder::due;
  Shuffle shuffle = Shuffle::due;
  Tiles tiles = Tiles::due;
  Padding padding = Padding::due;
  bool halves_swapped = false;
  bool nibbles_swapped = false;
  bool converted_twice = false;
  bool converted_whole = false;  // conversion first, cut last
  constexpr bool operator==(const Map&) const = default;
};

/// The slice that gate's rows are of.
constexpr std::int64_t gate_slice(const Map& map, std::int64_t tp) {
  return (map.slice + map.gate_ahead) % tp;
}

/// The map of a healthy target.
constexpr Map healthy_map(const Target& target) {
  Map map;
  map.expert = target.expert;
  map.slice = target.side == Side::tp ? target.rank : 0;
  return map;
}

/// Where the byte at `offset` of a target comes from: a place of the whole plain expert map.expert,
/// or nothing where the map puts a zero.
std::optional<layout::PlainPlace> source_of(const Case& layer, const Target& target, const Map& map,
                                            std::int64_t offset);

/// Bytes that lie together under a map, from every multiple of it on.
std::int64_t run_bytes(const Case& layer, const Target& target, const Map& map);

/// The bytes of a target under a map of the whole plain expert map.expert.
ByteVector mapped(const Case& layer, const Target& target, const Map& map,
                  const experts::PlainExpert& whole);

/// One of them.
std::uint8_t mapped_byte(const Case& layer, const Target& target, const Map& map,
                         const experts::PlainExpert& whole, std::int64_t offset);

/// True where the data's padding lies, in a healthy target.
bool is_padding(const Case& layer, const Target& target, std::int64_t offset);

/// Every map that deviates in at most a few steps, expert and slice as in a healthy target, those
/// with the fewest deviations first.
std::vector<Map> deviations(const Case& layer, const Target& target);

}  // namespace slicecheck::verify
