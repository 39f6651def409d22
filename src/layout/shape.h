// The one alphabet: E experts, H hidden, I intermediate, tp ranks of a group, I' = I / tp slice;
// and the sizes of the four tensors of an expert that follow from it. Integers only.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/reason.h"

namespace slicecheck::layout {

inline constexpr std::int64_t sf_vec = 16;           // elements under one block scale
inline constexpr std::int64_t codes_per_byte = 2;    // FP4 elements
inline constexpr std::int64_t slice_multiple = 64;   // I' % 64: whole k-tiles, whole 128-row tiles
inline constexpr std::int64_t hidden_multiple = 128; // H % 128: whole m-tiles of w2_sf

/// One layer's routed experts and how many ways they are cut.
struct Shape {
  std::int64_t experts = 0;       // E, over all ranks of a group
  std::int64_t hidden = 0;        // H
  std::int64_t intermediate = 0;  // I
  std::int64_t tp = 0;            // ranks of a group, EP and TP alike

  constexpr std::int64_t slice() const { return intermediate / tp; }       // I'
  constexpr std::int64_t experts_per_rank() const { return experts / tp; } // Er
  constexpr bool operator==(const Shape&) const = default;
};

/// Why experts of these widths cannot be cut tp ways: the seed's two sentences, or nothing.
/// Source: the seed, unsupported.
Reason unsupported(const Shape& shape);

/// The four tensor kinds of a converted expert, in the order of the seed.
enum class Kind { w13, w13_sf, w2, w2_sf };
inline constexpr std::array<Kind, 4> kinds{Kind::w13, Kind::w13_sf, Kind::w2, Kind::w2_sf};

constexpr std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 4> names{"w13", "w13_sf", "w2", "w2_sf"};
  return names[static_cast<std::size_t>(kind)];
}

constexpr bool is_scale(Kind kind) { return kind == Kind::w13_sf || kind == Kind::w2_sf; }
constexpr bool is_w13(Kind kind) { return kind == Kind::w13 || kind == Kind::w13_sf; }

/// The three projections of an expert: w1 gate, w3 up, w2 down.
enum class Projection { w1, w3, w2 };
inline constexpr std::array<Projection, 3> projections{Projection::w1, Projection::w3,
                                                       Projection::w2};

constexpr std::string_view name(Projection projection) {
  constexpr std::array<std::string_view, 3> names{"w1", "w3", "w2"};
  return names[static_cast<std::size_t>(projection)];
}

/// A byte matrix [rows, row_bytes], row-major.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  constexpr std::int64_t bytes() const { return rows * row_bytes; }
  constexpr bool operator==(const Matrix&) const = default;
};

/// Widths of one expert's tensors: of a stock expert (I) or of a tp expert (I' as intermediate).
struct Widths {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  constexpr bool operator==(const Widths&) const = default;
};

constexpr Widths stock_widths(const Shape& shape) { return {shape.hidden, shape.intermediate}; }
constexpr Widths tp_widths(const Shape& shape) { return {shape.hidden, shape.slice()}; }

/// One expert's converted tensor: w13 [2I, H/2], w13_sf [2I, H/16], w2 [H, I/2], w2_sf [H, I/16].
constexpr Matrix matrix(Kind kind, const Widths& widths) {
  switch (kind) {
    case Kind::w13: return {2 * widths.intermediate, widths.hidden / codes_per_byte};
    case Kind::w13_sf: return {2 * widths.intermediate, widths.hidden / sf_vec};
    case Kind::w2: return {widths.hidden, widths.intermediate / codes_per_byte};
    case Kind::w2_sf: return {widths.hidden, widths.intermediate / sf_vec};
  }
  return {};
}

/// One projection as the checkpoint has it: weights [I, H/2] and [H, I/2], scales [I, H/16] and
/// [H, I/16].
constexpr Matrix plain_matrix(Projection projection, bool scale, const Widths& widths) {
  const std::int64_t per_byte = scale ? sf_vec : codes_per_byte;
  if (projection == Projection::w2) return {widths.hidden, widths.intermediate / per_byte};
  return {widths.intermediate, widths.hidden / per_byte};
}

static_assert(matrix(Kind::w13, {640, 384}) == Matrix{768, 320});
static_assert(matrix(Kind::w2_sf, {640, 384}) == Matrix{640, 24});

}  // namespace slicecheck::layout
