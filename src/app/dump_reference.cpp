#include "app/dump_reference.h"

#include <algorithm>

namespace slicecheck::app {
namespace {

using layout::Projection;

/// A matrix of which only the first rows and bytes of a row are data.
struct Padded {
  layout::Matrix whole;
  layout::Matrix data;
};

Padded padded_matrix(Projection projection, bool scale, const layout::Widths& whole,
                     const layout::Widths& data) {
  return {layout::plain_matrix(projection, scale, whole),
          layout::plain_matrix(projection, scale, data)};
}

bool all_zero(const ByteVector& bytes, std::int64_t from, std::int64_t to) {
  return std::all_of(bytes.begin() + from, bytes.begin() + to,
                     [](std::uint8_t byte) { return byte == 0; });
}

/// [w3; w1] padded at its end and then halved: w3's last rows are w1's first, and w1 ends in twice
/// as many rows of zeros.
void part_again(ByteVector& up, ByteVector& gate, const Padded& matrix) {
  const std::int64_t row_bytes = matrix.whole.row_bytes;
  const std::int64_t rows = matrix.data.rows;
  const std::int64_t pad = matrix.whole.rows - rows;
  if (pad == 0 || pad > rows) return;
  const auto end = static_cast<std::int64_t>(up.size());
  const bool together =
      !all_zero(up, rows * row_bytes, end) && all_zero(gate, (rows - pad) * row_bytes, end);
  if (!together) return;
  gate.insert(gate.begin(), up.begin() + rows * row_bytes, up.end());
  gate.resize(up.size());
}

void clear_padding(ByteVector& bytes, const Padded& matrix) {
  for (std::int64_t row = 0; row < matrix.whole.rows; ++row) {
    const auto begin = bytes.begin() + row * matrix.whole.row_bytes;
    const std::int64_t kept = row < matrix.data.rows ? matrix.data.row_bytes : 0;
    std::fill(begin + kept, begin + matrix.whole.row_bytes, std::uint8_t{0});
  }
}

}  // namespace

experts::PlainExpert with_clean_padding(const experts::PlainExpert& plain,
                                        const layout::Widths& data) {
  experts::PlainExpert made = plain;
  const Padded weight = padded_matrix(Projection::w1, false, plain.widths, data);
  const Padded scale = padded_matrix(Projection::w1, true, plain.widths, data);
  part_again(made.w3.weight, made.w1.weight, weight);
  part_again(made.w3.scale, made.w1.scale, scale);
  for (const Projection projection : layout::projections) {
    experts::PlainProjection& one = experts::projection_of(made, projection);
    clear_padding(one.weight, padded_matrix(projection, false, plain.widths, data));
    clear_padding(one.scale, padded_matrix(projection, true, plain.widths, data));
  }
  return made;
}

DumpReference::DumpReference(const DumpCase& dump, std::int64_t group)
    : dump_(dump), ranks_(dump.ranks_of(group)) {
  const verify::Case shape = dump.shape();
  if (const std::optional<layout::Payload> payload = dump.payload()) {
    experts_ = std::make_unique<verify::Reference>(shape, *payload);
  } else if (dump.checkpoint != nullptr) {
    experts_ = std::make_unique<verify::Reference>(
        shape, [this](std::int64_t expert) { return from_checkpoint(expert); });
  } else {
    stock_is_true_ = !shape.data;
    stocks_.resize(ranks_.size());
    experts_ = std::make_unique<verify::Reference>(
        shape, [this](std::int64_t expert) { return from_stock(expert); });
  }
}

experts::PlainExpert DumpReference::from_checkpoint(std::int64_t expert) {
  Result<experts::PlainExpert> plain = dump_.checkpoint->expert(expert);
  if (plain.reason) return none(plain.reason);
  if (!dump_.shape().data) return std::move(*plain);
  return verify::padded(*plain, layout::stock_widths(dump_.manifest.shape));
}

experts::PlainExpert DumpReference::from_stock(std::int64_t expert) {
  const std::int64_t held = dump_.manifest.shape.experts_per_rank();
  std::optional<checkpoint::DumpStock>& stock = stocks_.at(expert / held);
  if (!stock) {
    Result<checkpoint::DumpStock> opened =
        checkpoint::DumpStock::open(dump_.folder, dump_.manifest, ranks_.at(expert / held));
    if (opened.reason) return none(opened.reason);
    stock = std::move(*opened);
  }
  const Result<experts::ConvertedExpert> converted =
      stock->expert(expert % held, layout::stock_widths(dump_.manifest.shape));
  if (converted.reason) return none(converted.reason);
  experts::PlainExpert plain = experts::unconverted(*converted);
  if (!dump_.shape().data) return plain;
  return with_clean_padding(plain, *dump_.shape().data);
}

experts::PlainExpert DumpReference::none(const Reason& reason) {
  if (!reason_) reason_ = reason;
  experts::PlainExpert made;
  made.widths = layout::stock_widths(dump_.manifest.shape);
  for (const Projection projection : layout::projections) {
    experts::projection_of(made, projection) = {
        ByteVector(layout::plain_matrix(projection, false, made.widths).bytes()),
        ByteVector(layout::plain_matrix(projection, true, made.widths).bytes())};
  }
  return made;
}

}  // namespace slicecheck::app
