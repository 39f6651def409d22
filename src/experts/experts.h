// The three forms of a layer's routed experts, as records: plain (the checkpoint), stock (what an
// expert-parallel rank holds, converted) and tp (what a tensor-parallel rank must hold).
// Source: the seed, StockNvfp4 and TpExperts.
#pragma once

#include <vector>

#include "base/tensor.h"
#include "layout/shape.h"

namespace slicecheck::experts {

/// One projection of one expert as the checkpoint has it: weight U8 [out, in/2], two codes a byte,
/// low nibble first; scale F8_E4M3 [out, in/16], linear. out = I, in = H (w2: out = H, in = I).
struct PlainProjection {
  ByteVector weight;
  ByteVector scale;
};

/// One expert as the checkpoint has it. w1 is gate, w3 is up, w2 is down.
struct PlainExpert {
  layout::Widths widths;
  PlainProjection w1;
  PlainProjection w3;
  PlainProjection w2;
};

/// A member of a PlainExpert by its projection.
const PlainProjection& projection_of(const PlainExpert& expert, layout::Projection projection);
PlainProjection& projection_of(PlainExpert& expert, layout::Projection projection);

/// One rank's stock experts of one layer in the converted layout; first_expert is their placement.
struct StockExperts {
  Tensor w13;         // u8   [Er, 2I, H/2]
  Tensor w13_sf;      // e4m3 [Er, 2I, H/16], 128x4
  Tensor w2;          // u8   [Er, H, I/2]
  Tensor w2_sf;       // e4m3 [Er, H, I/16], 128x4
  Tensor g1_alphas;   // f32  [Er]
  Tensor g1_scale_c;  // f32  [Er]
  Tensor g2_alphas;   // f32  [Er]
  Tensor a1_gscale;   // f32  [1], the experts' input global scale
  Tensor a2_gscale;   // f32  [1], the intermediate's global scale
  std::int64_t first_expert = 0;
};

/// One rank's tp experts of one layer: all E experts at intermediate slice r of tp, converted.
struct TpExperts {
  Tensor w13;         // u8  [E, 2I', H/2]
  Tensor w13_sf;      // u8  [E, 2I', H/16], 128x4
  Tensor w2;          // u8  [E, H, I'/2]
  Tensor w2_sf;       // u8  [E, H, I'/16], 128x4
  Tensor g1_alphas;   // f32 [E]
  Tensor g1_scale_c;  // f32 [E]
  Tensor g2_alphas;   // f32 [E]
  std::int64_t intermediate = 0;  // I'
  std::int64_t num_experts = 0;   // E
};

/// A member of either record by its kind.
const Tensor& tensor_of(const StockExperts& stock, layout::Kind kind);
Tensor& tensor_of(StockExperts& stock, layout::Kind kind);
const Tensor& tensor_of(const TpExperts& tp, layout::Kind kind);
Tensor& tensor_of(TpExperts& tp, layout::Kind kind);

/// The per-expert scalars of a record that are moved by a reshard.
enum class Scalar { g1_alphas, g1_scale_c, g2_alphas };
inline constexpr std::array<Scalar, 3> all_scalars{Scalar::g1_alphas, Scalar::g1_scale_c,
                                                   Scalar::g2_alphas};
std::string_view name(Scalar scalar);
const Tensor& tensor_of(const StockExperts& stock, Scalar scalar);
Tensor& tensor_of(StockExperts& stock, Scalar scalar);
const Tensor& tensor_of(const TpExperts& tp, Scalar scalar);
Tensor& tensor_of(TpExperts& tp, Scalar scalar);

/// The shape that the stock's w13 implies for `tp` ranks; experts is Er tp. Checked by
/// unsupported(): a w13 that is not [experts, rows, columns] implies nothing and gives zeros.
layout::Shape shape_of(const StockExperts& stock, std::int64_t tp);

/// Why `stock` cannot be cut tp ways, with the seed's sentences: a tensor of another type or other
/// extents, one that is not contiguous, widths that do not split. Never throws, whatever it holds.
/// Source: the seed, unsupported.
Reason unsupported(const StockExperts& stock, std::int64_t tp);

/// Why rank `rank` of `size` does not hold its linear share of `experts`, or nothing.
/// Source: the seed, reshard_nvfp4.
Reason misplaced(const StockExperts& stock, std::int64_t rank, std::int64_t size,
                 std::int64_t experts);

/// The extents of a kind's tensor of a rank: stock [Er, rows, row_bytes], tp [E, rows, row_bytes].
Extents stock_extents(layout::Kind kind, const layout::Shape& shape);
Extents final_extents(layout::Kind kind, const layout::Shape& shape);

/// Why `tp` is not one rank's tp experts of that shape, or nothing: a tensor of other extents
/// (`wrong-axis-cut`), of another type, or one that is not contiguous. Its bytes are not read.
Reason misshapen(const TpExperts& tp, const layout::Shape& shape);

}  // namespace slicecheck::experts
