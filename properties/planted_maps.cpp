#include "properties/planted.h"

namespace slicecheck::properties {
namespace {

using experts::ConvertedExpert;
using experts::PlainExpert;
using layout::Kind;
using layout::Projection;

std::int64_t by_the_other_stride(std::int64_t row) {
  return row / 32 * 32 + row % 4 * 8 + row % 32 / 4;
}

std::int64_t in_the_next_block(std::int64_t row) { return layout::shuffle_source(row) + 32; }

layout::PlainRow gate_at_even_rows(std::int64_t dest) {
  const layout::PlainRow right = layout::w13_source(dest);
  return {right.projection == Projection::w1 ? Projection::w3 : Projection::w1, right.row};
}

layout::PlainRow halves_one_after_the_other(std::int64_t dest) {
  return {dest % 64 < 32 ? Projection::w3 : Projection::w1, dest / 64 * 32 + dest % 32};
}

std::int64_t tile_strides_exchanged(std::int64_t row, std::int64_t col, std::int64_t cols) {
  const std::int64_t tile = row / 128 * (cols / 4) + col / 4;
  return tile * 512 + row % 32 * 4 + row % 128 / 32 * 128 + col % 4;
}

std::int64_t k_tile_forgotten(std::int64_t row, std::int64_t col, std::int64_t cols) {
  return row / 128 * (cols / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
}

layout::SfPlace one_column_of_tiles(std::int64_t offset, std::int64_t cols) {
  const layout::SfPlace right = layout::sf_source(offset, cols);
  return {right.row % 128, right.col};
}

layout::Cut flat(Kind kind, const layout::Shape& shape) {
  const layout::Cut right = layout::cut(kind, shape);
  return {right.expert_bytes, 1, right.expert_bytes / shape.tp, right.expert_bytes};
}

layout::Cut slices_that_overlap(Kind kind, const layout::Shape& shape) {
  layout::Cut made = layout::cut(kind, shape);
  if (kind == Kind::w2_sf) made.run_stride -= made.run_bytes;
  return made;
}

layout::PlainPlace without_the_shuffle(Kind kind, std::int64_t offset,
                                       const layout::Widths& widths) {
  layout::PlainPlace made = layout::plain_place(kind, offset, widths);
  if (kind == Kind::w2) made.row = offset / layout::matrix(kind, widths).row_bytes;
  return made;
}

std::int64_t scales_linear(const layout::PlainPlace& place, const layout::Widths& widths) {
  const std::int64_t row_bytes =
      layout::matrix(layout::kind_of(place.projection, place.scale), widths).row_bytes;
  return layout::row_dest({place.projection, place.row}) * row_bytes + place.byte;
}

layout::PlainPlace scales_move_as_weights(const layout::PlainPlace& place, std::int64_t d,
                                          std::int64_t slice) {
  layout::PlainPlace made = place;
  if (place.projection == Projection::w2) {
    made.byte += d * slice / 2;
  } else {
    made.row += d * slice;
  }
  return made;
}

ConvertedExpert scale_rows_left(const PlainExpert& plain) {
  ConvertedExpert made = experts::converted(plain);
  made.w2_sf = experts::interleaved_scales(plain.w2.scale, plain.widths.intermediate / 16);
  return made;
}

ConvertedExpert halves_exchanged(const PlainExpert& plain) {
  PlainExpert other = plain;
  std::swap(other.w1.weight, other.w3.weight);
  return experts::converted(other);
}

PlainExpert shuffled_once_more(const ConvertedExpert& expert) {
  PlainExpert made = experts::unconverted(expert);
  made.w2.weight = experts::shuffled_rows(made.w2.weight, expert.widths.intermediate / 2);
  return made;
}

PlainExpert first_scales_for_all(const PlainExpert& plain, std::int64_t tp, std::int64_t d) {
  PlainExpert made = experts::slice(plain, tp, d);
  made.w2.scale = experts::slice(plain, tp, 0).w2.scale;
  return made;
}

ConvertedExpert slices_reversed(const ConvertedExpert& expert, std::int64_t tp, std::int64_t d) {
  return experts::slice(expert, tp, tp - 1 - d);
}

// Right for up to 3 ways, then the last slice is the first: only a finer cut shows it.
ConvertedExpert few_slices_only(const ConvertedExpert& expert, std::int64_t tp, std::int64_t d) {
  return experts::slice(expert, tp, tp > 3 && d + 1 == tp ? 0 : d);
}

ConvertedExpert the_next_slice(const PlainExpert& plain, std::int64_t tp, std::int64_t d) {
  return experts::placed_slice(plain, tp, (d + 1) % tp);
}

template <typename Function>
Planted planted(std::string name, std::string law, Function Subject::*place, Function wrong) {
  Planted made{std::move(name), std::move(law), Subject()};
  made.subject.*place = wrong;
  return made;
}

}  // namespace

std::vector<Planted> planted_maps() {
  return {
      planted("shuffle_source by the other stride", "Rows.shuffle_dest_undoes_shuffle_source",
              &Subject::shuffle_source, by_the_other_stride),
      planted("shuffle_source into the next block", "Rows.shuffle_dest_undoes_shuffle_source",
              &Subject::shuffle_source, in_the_next_block),
      planted("w13_source with gate at even rows", "Rows.w13_dest_undoes_w13_source",
              &Subject::w13_source, gate_at_even_rows),
      planted("w13_source with halves one after the other", "Rows.w13_dest_undoes_w13_source",
              &Subject::w13_source, halves_one_after_the_other),
      planted("sf_offset without k-tiles", "SfTile.offset_is_one_to_one_and_onto",
              &Subject::sf_offset, k_tile_forgotten),
      planted("sf_offset with strides exchanged", "SfTile.source_undoes_offset",
              &Subject::sf_offset, tile_strides_exchanged),
      planted("sf_source of one m-tile", "SfTile.source_undoes_offset", &Subject::sf_source,
              one_column_of_tiles),
      planted("a flat cut", "Cut.takes_the_place_of_the_slice", &Subject::cut, flat),
      planted("a flat cut of the stocks", "Stock.ranks_together_hold_what_tp_must", &Subject::cut,
              flat),
      planted("slices that overlap", "Cut.slices_partition_the_converted_bytes", &Subject::cut,
              slices_that_overlap),
      planted("plain_place without the shuffle", "Place.converted_offset_undoes_plain_place",
              &Subject::plain_place, without_the_shuffle),
      planted("plain_place without the shuffle, of the payload",
              "Payload.byte_of_a_place_is_the_experts_byte", &Subject::plain_place,
              without_the_shuffle),
      planted("converted_offset with scales linear", "Place.converted_offset_undoes_plain_place",
              &Subject::converted_offset, scales_linear),
      planted("whole_place with scales moved as weights", "Cut.takes_the_place_of_the_slice",
              &Subject::whole_place, scales_move_as_weights),
      planted("scale rows not shuffled", "Convert.both_derivations_agree", &Subject::converted,
              scale_rows_left),
      planted("gate and up exchanged", "Convert.both_derivations_agree", &Subject::converted,
              halves_exchanged),
      planted("gate and up exchanged one way", "Convert.unconvert_undoes_convert",
              &Subject::converted, halves_exchanged),
      planted("unconverted by the wrong way", "Convert.unconvert_undoes_convert",
              &Subject::unconverted, shuffled_once_more),
      planted("a plain slice with the first's scales", "Cut.slice_of_converted_is_converted_slice",
              &Subject::plain_slice, first_scales_for_all),
      planted("slices in reverse", "Cut.slice_of_converted_is_converted_slice",
              &Subject::converted_slice, slices_reversed),
      planted("a cut right for few slices only", "Cut.cutting_again_cuts_finer",
              &Subject::converted_slice, few_slices_only),
      planted("the formula of the next slice", "Convert.both_derivations_agree",
              &Subject::placed_slice, the_next_slice),
  };
}

}  // namespace slicecheck::properties
