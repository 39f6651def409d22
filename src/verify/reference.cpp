#include "verify/reference.h"

#include <algorithm>

#include "experts/payload.h"

namespace slicecheck::verify {
namespace {

ByteVector grown(const ByteVector& from, const layout::Matrix& is, const layout::Matrix& due) {
  ByteVector made(due.bytes(), 0);
  for (std::int64_t row = 0; row < is.rows; ++row) {
    std::copy_n(from.begin() + row * is.row_bytes, is.row_bytes,
                made.begin() + row * due.row_bytes);
  }
  return made;
}

}  // namespace

experts::PlainExpert padded(const experts::PlainExpert& plain, const layout::Widths& widths) {
  experts::PlainExpert made;
  made.widths = widths;
  for (const layout::Projection p : layout::projections) {
    const experts::PlainProjection& from = experts::projection_of(plain, p);
    const auto is = [&](bool scale) { return layout::plain_matrix(p, scale, plain.widths); };
    const auto due = [&](bool scale) { return layout::plain_matrix(p, scale, widths); };
    experts::projection_of(made, p) = {grown(from.weight, is(false), due(false)),
                                       grown(from.scale, is(true), due(true))};
  }
  return made;
}

Reference::Reference(const Case& layer, const layout::Payload& payload)
    : layer_(layer), payload_(payload) {
  loader_ = [this](std::int64_t expert) { return seeded(expert, payload_->seed); };
}

Reference::Reference(const Case& layer, Loader loader)
    : layer_(layer), loader_(std::move(loader)) {}

layout::Widths Reference::data_widths() const {
  return layer_.data.value_or(layout::stock_widths(layer_.shape));
}

experts::PlainExpert Reference::seeded(std::int64_t expert, std::uint64_t seed) const {
  layout::Payload payload = *payload_;
  payload.seed = seed;
  experts::PlainExpert made = experts::payload_expert(payload, expert, data_widths());
  if (layer_.data) return padded(made, layout::stock_widths(layer_.shape));
  return made;
}

const experts::PlainExpert& Reference::whole(std::int64_t expert) {
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const auto& entry) { return entry.first == expert; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().second;
  }
  // Three matrices of half a byte an element, and a scale for sixteen of them.
  const std::int64_t each = layer_.shape.hidden * layer_.shape.intermediate * 3 * 9 / 16;
  if (recent_.size() >= std::max(kept, static_cast<std::size_t>(kept_bytes / each))) {
    recent_.pop_back();
  }
  recent_.emplace_front(expert, loader_(expert));
  return recent_.front().second;
}

}  // namespace slicecheck::verify
