#include "verify/other_widths.h"

#include <algorithm>

#include "experts/payload.h"

namespace slicecheck::verify {
namespace {

using layout::Payload;
using layout::PayloadKind;
using layout::Projection;
using layout::Widths;

constexpr std::int64_t step = 16;  // a block

struct Sample {
  layout::PlainPlace place;
  std::uint8_t got = 0;
};

std::vector<Sample> samples_of(const Reference& reference, const Target& target, Bytes got) {
  constexpr std::size_t count = 64;
  std::vector<Sample> made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (2 * i + 1) * got.size() / (2 * count);
    const auto place =
        source_of(reference.layer(), target, healthy_map(target), static_cast<std::int64_t>(at));
    made.push_back({*place, got[at]});
  }
  return made;
}

std::uint64_t word_at(const Payload& payload, std::int64_t expert, Projection projection,
                      std::int64_t j, const Widths& widths) {
  if (payload.kind == PayloadKind::exact && projection == Projection::w2) {
    return layout::exact_word(j, payload.round, widths);
  }
  return layout::weight_word(layout::word_key(payload.seed, expert, layout::word_kind(projection)),
                             j);
}

// The byte of an expert of these widths, padded with zeros.
std::uint8_t byte_at(const Payload& payload, std::int64_t expert, const layout::PlainPlace& place,
                     const Widths& widths) {
  const layout::Matrix matrix = layout::plain_matrix(place.projection, place.scale, widths);
  if (place.row >= matrix.rows || place.byte >= matrix.row_bytes) return 0;
  const std::int64_t at = place.row * matrix.row_bytes + place.byte;
  const std::int64_t unit = place.scale ? layout::unit_bytes : layout::word_bytes;
  const std::int64_t j = at / unit;
  const std::uint64_t value =
      place.scale ? layout::unit_of(payload.kind, layout::scale_key(payload.seed),
                                    layout::scale_unit(expert, place.projection, j, widths))
                  : word_at(payload, expert, place.projection, j, widths);
  return static_cast<std::uint8_t>(value >> (8 * (at % unit)));
}

bool gives_all(const Reference& reference, const Target& target, const Widths& widths, Bytes got) {
  const Case& layer = reference.layer();
  const experts::PlainExpert plain =
      experts::payload_expert(*reference.payload(), target.expert, widths);
  const ByteVector due =
      mapped(layer, target, healthy_map(target), padded(plain, layout::stock_widths(layer.shape)));
  return std::equal(due.begin(), due.end(), got.begin(), got.end());
}

}  // namespace

std::optional<Widths> other_widths(const Reference& reference, const Target& target, Bytes got) {
  if (!reference.payload()) return {};
  const std::vector<Sample> samples = samples_of(reference, target, got);
  const Widths most = layout::stock_widths(reference.layer().shape);
  int builds = 8;
  for (Widths widths{step, 0}; widths.hidden <= most.hidden; widths.hidden += step) {
    for (widths.intermediate = step; widths.intermediate <= most.intermediate;
         widths.intermediate += step) {
      const bool fits = std::all_of(samples.begin(), samples.end(), [&](const Sample& one) {
        return byte_at(*reference.payload(), target.expert, one.place, widths) == one.got;
      });
      if (!fits || widths == reference.data_widths()) continue;
      if (gives_all(reference, target, widths, got)) return widths;
      if (--builds == 0) return {};
    }
  }
  return {};
}

void drop_scalars_of_other_widths(const Subject& subject, const std::vector<WrongTensor>& wrong,
                                  std::vector<WrongScalar>& scalars) {
  if (!subject.payload) return;
  std::vector<Widths> all;
  for (const WrongTensor& one : wrong) {
    const bool sure = one.data.hidden > 0 && one.causes.has(Cause::padding_misplaced);
    if (sure && std::find(all.begin(), all.end(), one.data) == all.end()) all.push_back(one.data);
  }
  for (const Widths& widths : all) {
    const experts::Scalars theirs =
        experts::payload_scalars(subject.payload->seed, 0, subject.layer.shape.experts, widths);
    std::erase_if(scalars, [&](const WrongScalar& one) {
      if (one.expert < 0) return false;
      const auto scalar = static_cast<experts::Scalar>(static_cast<int>(one.name) -
                                                       static_cast<int>(ScalarName::g1_alphas));
      return same_bits(one.value, experts::values_of(theirs, scalar)[one.expert]);
    });
  }
}

}  // namespace slicecheck::verify
