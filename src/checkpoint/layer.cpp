#include "checkpoint/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/must.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

using layout::Projection;

// The columns [first, first + count) of rows [row, row + rows) of a matrix, packed.
struct Window {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Runs of whole rows are read at once; narrower ones by way of whole rows, a few megabytes a time:
// one read a row of a few hundred bytes would cost more than the bytes beside it.
constexpr std::int64_t staging_bytes = std::int64_t{4} << 20;

Result<ByteVector> bytes_in(const MatrixPlace& place, const Window& window) {
  const std::int64_t row_bytes = place.matrix.row_bytes;
  const Safetensors& file = *place.tensor.file;
  ByteVector made(window.rows * window.count);
  const std::int64_t begin = place.begin + window.row * row_bytes;
  if (window.count == row_bytes) {
    Reason reason = file.read(*place.tensor.entry, begin, made);
    if (reason) return reason;
    return made;
  }
  const std::int64_t rows_max = std::max<std::int64_t>(1, staging_bytes / row_bytes);
  ByteVector staging(std::min(rows_max, window.rows) * row_bytes);
  for (std::int64_t row = 0; row < window.rows; row += rows_max) {
    const std::int64_t rows = std::min(rows_max, window.rows - row);
    const MutableBytes part = MutableBytes(staging).first(rows * row_bytes);
    Reason reason = file.read(*place.tensor.entry, begin + row * row_bytes, part);
    if (reason) return reason;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(made.data() + (row + r) * window.count,
                  part.data() + r * row_bytes + window.first, window.count);
    }
  }
  return made;
}

Window whole(const MatrixPlace& place) { return {0, place.matrix.rows, 0, place.matrix.row_bytes}; }

// Slice d of tp: rows of w1 and w3, columns of w2.
Window part(const MatrixPlace& place, Projection projection, std::int64_t tp, std::int64_t d) {
  const layout::Matrix& matrix = place.matrix;
  if (projection == Projection::w2) {
    return {0, matrix.rows, d * (matrix.row_bytes / tp), matrix.row_bytes / tp};
  }
  return {d * (matrix.rows / tp), matrix.rows / tp, 0, matrix.row_bytes};
}

float larger(float a, float b) { return std::isnan(b) || b > a ? b : a; }

}  // namespace

std::string_view name(Format format) {
  constexpr std::array<std::string_view, 3> names{"ModelOpt", "compressed-tensors", "fused"};
  return names[static_cast<std::size_t>(format)];
}

std::string part_name(Projection projection, ProjectionPart part) {
  constexpr std::array<std::string_view, 5> parts{"weight", "bias", "weight_scale",
                                                  "weight_scale_2", "input_scale"};
  return fmt::format("{}.{}", layout::name(projection), parts[static_cast<std::size_t>(part)]);
}

Layer::Layer(Format format, std::string root, layout::Widths widths, LayerPlaces places)
    : format_(format), root_(std::move(root)), widths_(widths), places_(std::move(places)) {}

bool Layer::holds(std::int64_t e) const {
  const ExpertPlace& expert = places_.experts.at(e);
  return std::any_of(expert.begin(), expert.end(), [](const ProjectionPlace& place) {
    return place.weight.tensor.file != nullptr;
  });
}

bool Layer::holds_block_scales(std::int64_t e, Projection projection) const {
  return places_.experts.at(e)[static_cast<std::size_t>(projection)].scale.tensor.file != nullptr;
}

Reason Layer::flawed() const {
  if (flaws().empty()) return {};
  const Flaw& flaw = flaws().front();
  if (!flaw.projection) {
    return Reason(flaw.reason.text(), flaw.reason.cause(), {"checkpoint", "", -1, flaw.expert});
  }
  // A fused tensor is all experts'.
  const std::int64_t expert = format_ == Format::fused ? -1 : flaw.expert;
  return Reason(flaw.reason.text(), flaw.reason.cause(),
                {"checkpoint", part_name(*flaw.projection, flaw.part), -1, expert});
}

Result<experts::PlainExpert> Layer::expert(std::int64_t e) const {
  if (Reason reason = flawed()) return reason;
  experts::PlainExpert made;
  made.widths = widths_;
  for (const Projection projection : layout::projections) {
    const ProjectionPlace& place = places_.experts.at(e)[static_cast<std::size_t>(projection)];
    Result<ByteVector> weight = bytes_in(place.weight, whole(place.weight));
    if (weight.reason) return weight.reason;
    Result<ByteVector> scale = bytes_in(place.scale, whole(place.scale));
    if (scale.reason) return scale.reason;
    projection_of(made, projection) = {std::move(*weight), std::move(*scale)};
  }
  return made;
}

Result<ByteVector> Layer::block_scales(std::int64_t e, Projection projection) const {
  if (!holds_block_scales(e, projection)) return flawed();
  const ProjectionPlace& place = places_.experts.at(e)[static_cast<std::size_t>(projection)];
  return bytes_in(place.scale, whole(place.scale));
}

Result<experts::PlainExpert> Layer::expert_slice(std::int64_t e, std::int64_t tp,
                                                 std::int64_t d) const {
  if (Reason reason = flawed()) return reason;
  must(widths_.intermediate % (tp * layout::sf_vec) == 0, "a slice of part of a block asked for");
  experts::PlainExpert made;
  made.widths = {widths_.hidden, widths_.intermediate / tp};
  for (const Projection projection : layout::projections) {
    const ProjectionPlace& place = places_.experts.at(e)[static_cast<std::size_t>(projection)];
    Result<ByteVector> weight = bytes_in(place.weight, part(place.weight, projection, tp, d));
    if (weight.reason) return weight.reason;
    Result<ByteVector> scale = bytes_in(place.scale, part(place.scale, projection, tp, d));
    if (scale.reason) return scale.reason;
    projection_of(made, projection) = {std::move(*weight), std::move(*scale)};
  }
  return made;
}

const ProjectionScales& Layer::scales(std::int64_t e, Projection projection) const {
  return places_.experts.at(e)[static_cast<std::size_t>(projection)].scales;
}

const InputClaim& Layer::input_claim(std::int64_t e, Projection projection) const {
  return places_.experts.at(e)[static_cast<std::size_t>(projection)].input;
}

Reason Layer::missing(std::int64_t e, Projection projection, std::string_view which,
                      std::string_view tail) const {
  const std::string& file =
      places_.experts.at(e)[static_cast<std::size_t>(projection)].weight.tensor.file->name();
  return Reason(fmt::format("{}: {}: expert {} has no {} of {}", file, in_quotes(root_), e, which,
                            layout::name(projection)),
                "scale-missing",
                {"checkpoint", fmt::format("{}.{}", layout::name(projection), tail), -1, e});
}

Result<float> Layer::largest_input(Projection from, Projection to) const {
  float largest = -INFINITY;
  for (std::int64_t e = 0; e < experts(); ++e) {
    for (const Projection projection : {from, to}) {
      const std::optional<float>& input = scales(e, projection).input;
      if (!input) return missing(e, projection, "input scale", "input_scale");
      largest = larger(largest, *input);
    }
  }
  return largest;
}

Result<experts::Scalars> Layer::scalars(std::int64_t first, std::int64_t count) const {
  if (Reason reason = flawed()) return reason;
  const Result<float> a13 = largest_input(Projection::w1, Projection::w3);
  if (a13.reason) return a13.reason;
  const Result<float> a2 = largest_input(Projection::w2, Projection::w2);
  if (a2.reason) return a2.reason;
  experts::Scalars made;
  made.a1_gscale = 1.0F / *a13;
  made.a2_gscale = 1.0F / *a2;
  for (std::int64_t e = first; e < first + count; ++e) {
    for (const Projection projection : layout::projections) {
      if (!scales(e, projection).weight) {
        return missing(e, projection, "global weight scale", "weight_scale_2");
      }
    }
    made.g1_alphas.push_back(*a13 * *scales(e, Projection::w1).weight);
    made.g1_scale_c.push_back(made.g1_alphas.back() * made.a2_gscale);
    made.g2_alphas.push_back(*a2 * *scales(e, Projection::w2).weight);
  }
  return made;
}

}  // namespace slicecheck::checkpoint
