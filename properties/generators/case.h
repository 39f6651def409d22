// A case is one random layout as plain numbers: everything that a law needs, nothing that it makes
// from them. Cases are drawn, shrunk, hashed, saved and run again as these numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/reason.h"
#include "layout/payload.h"

namespace slicecheck::properties {

/// What is wrong with the input of a case. The generator of valid cases draws `none` alone, that of
/// invalid ones any other, so that an invalid case says what it broke.
enum class Fault {
  none,
  dtype,           // a tensor of another element type
  extents,         // a tensor with one element more in its last extent
  strides,         // a tensor that is not contiguous
  uneven,          // I does not split tp ways
  slice_width,     // I' is not a multiple of 64
  hidden_width,    // H is not a multiple of 128
  other_shape,     // one rank holds sound experts of another H
  other_total,     // one rank expects another number of experts
  placement,       // one rank declares another first expert
  scale_bits,      // a global scale differs on one rank in its last bit
  scale_zero,      // a global scale is zero, on one rank
  scale_denormal,  // or denormal
  scale_negative,  // or negative
  scale_nan,       // or NaN
  scale_infinite,  // or infinite
};
inline constexpr int fault_count = 16;

std::string_view name(Fault fault);

/// Where the experts of a case lie. The generator of misplaced cases draws any but `linear`.
enum class Placement {
  linear,       // rank r holds experts [r Er, (r + 1) Er)
  permuted,     // the last expert first
  duplicated,   // a slot holds another slot's expert, whose own stays: one twice, one by nobody
  rank_lies,    // a rank declares another first expert than the one that it holds
  round_robin,  // rank r holds experts r, r + n, ...; Er is 2 or more, else it is linear
};
inline constexpr int placement_count = 5;
std::string_view name(Placement placement);

/// How the checkpoint of a case keeps its experts.
enum class Format { modelopt, compressed_tensors, fused };
inline constexpr int format_count = 3;
std::string_view name(Format format);

/// Which experts the tokens of a case go to: all alike, each expert half as often as the one
/// before, none to those of one rank, all to one.
enum class Routes { covering, skewed, without, all_to_one };
inline constexpr int routes_count = 4;
std::string_view name(Routes routes);

/// The scalars of a case's experts: each expert's own, or one expert's for all.
enum class Scales { per_expert, equal };
inline constexpr int scales_count = 2;
std::string_view name(Scales scales);

/// What is planted in the sound layer of a case: a fault of the catalogue, or nothing (0).
inline constexpr int plant_count = 34;
std::string_view plant_name(std::int64_t plant);

/// One random layout. `again` divides each slice once more: I' is a multiple of 64 again.
struct Case {
  layout::Shape shape{2, 128, 128, 2};
  layout::Payload payload;
  std::int64_t again = 1;
  Fault fault = Fault::none;
  std::int64_t fault_rank = 0;    // of the ranks [0, tp)
  std::int64_t fault_tensor = 0;  // which tensor of the stock, counted round
  std::int64_t fault_expert = 0;  // which expert, counted round
  Placement placement = Placement::linear;
  Format format = Format::modelopt;
  Routes routes = Routes::covering;
  Scales scales = Scales::per_expert;
  std::int64_t plant = 0;
  bool operator==(const Case&) const = default;
};

/// A case of a law, as it is saved.
struct SavedCase {
  std::string law;
  Case given;
};

/// The case as literal JSON on one line, format slicecheck-case/1: the bytes that ranks compare and
/// that a file holds.
std::string json(const SavedCase& saved);

/// The case that `text` holds. Refuses what is not slicecheck-case/1.
Result<SavedCase> parsed(std::string_view text);

/// One sentence in the alphabet: "E 4, H 128, I 256, tp 2, ...".
std::string text(const Case& given);

/// What of a case a law must meet in every class before it counts as passed.
enum class Dimension {
  tp,
  hidden_tiles,
  slice_tiles,
  experts_per_rank,
  payload,
  again,
  fault,
  placement,
  format,
  routes,
  scales,
  plant
};

/// The class of a case along a dimension, as "tp 2" or "H tiles 3+".
std::string class_of(const Case& given, Dimension dimension);

/// Limits of the random cases.
struct Limits {
  int tp = 8;                          // ranks of a group, from 2 on
  std::int64_t hidden_tiles = 5;       // H / 128
  std::int64_t slice_tiles = 4;        // I' / 64
  std::int64_t experts_per_rank = 4;   // Er
  std::int64_t layer_bytes = 1 << 20;  // all experts of a layer; larger draws are cut down to it
  bool operator==(const Limits&) const = default;
};

/// Every class along a dimension that cases within the limits can reach.
std::vector<std::string> classes(Dimension dimension, const Limits& limits);

}  // namespace slicecheck::properties
