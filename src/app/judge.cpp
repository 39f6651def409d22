#include "app/judge.h"

#include <fmt/format.h>

#include "verify/compare.h"

namespace slicecheck::app {
namespace {

verify::Judged place_of(const JudgedTp& judged, const layout::Shape& shape) {
  return {report::Side::tp, judged.global_rank, layout::stock_widths(shape),
          shape.tp,         judged.rank,        0,
          shape.experts};
}

verify::TensorComparison comparison(layout::Kind kind, const std::vector<memory::Difference>& found,
                                    std::int64_t expert_bytes) {
  verify::TensorComparison made{kind, 0, 0, {}};
  for (std::size_t expert = 0; expert < found.size(); ++expert) {
    made.compared += expert_bytes;
    made.differing += found[expert].differing;
    if (found[expert].differing == 0) continue;
    made.experts.push_back(
        {static_cast<std::int64_t>(expert), found[expert].differing, found[expert].first});
  }
  return made;
}

using Comparisons = std::vector<verify::TensorComparison>;

/// By the payload rule: no expected byte is stored.
Comparisons compared_to_payload(const JudgedTp& judged, const Source& source,
                                memory::Space& space) {
  const layout::Shape& shape = source.shape;
  Comparisons made;
  for (const layout::Kind kind : layout::kinds) {
    const memory::PayloadTensor due{*source.payload, kind,        layout::stock_widths(shape),
                                    shape.tp,        judged.rank, 0,
                                    shape.experts};
    const std::vector<memory::Difference> found =
        space.compare_payload(experts::tensor_of(judged.tp, kind).data.get(), due);
    made.push_back(comparison(kind, found, due.expert_bytes()));
  }
  return made;
}

/// Slice d of plain expert `expert`, converted: what a TP loader would make of the checkpoint.
Result<experts::ConvertedExpert> expected(const Source& source, std::int64_t expert, int rank) {
  const Result<experts::PlainExpert> slice = source.plain_slice(expert, rank);
  if (slice.reason) return slice.reason;
  return experts::converted(*slice);
}

/// By the checkpoint: each expert's slice is read and converted, then compared in `space`.
Result<Comparisons> compared_to_slices(const JudgedTp& judged, const Source& source,
                                       memory::Space& space, Progress& progress) {
  const layout::Shape& shape = source.shape;
  std::array<std::vector<memory::Difference>, 4> found;
  std::array<std::shared_ptr<std::uint8_t>, 4> rooms;
  for (const layout::Kind kind : layout::kinds) {
    const std::int64_t bytes = layout::matrix(kind, layout::tp_widths(shape)).bytes();
    auto room = space.allocate(bytes, "one expected slice");
    if (room.reason) return room.reason;
    rooms[static_cast<std::size_t>(kind)] = *room;
  }
  for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
    const Result<experts::ConvertedExpert> due = expected(source, expert, judged.rank);
    if (due.reason) return due.reason;
    for (const layout::Kind kind : layout::kinds) {
      const auto index = static_cast<std::size_t>(kind);
      const ByteVector& want = experts::bytes_of(*due, kind);
      const auto bytes = static_cast<std::int64_t>(want.size());
      space.upload(rooms[index].get(), want);
      found[index].push_back(
          space.compare(experts::tensor_of(judged.tp, kind).data.get() + expert * bytes,
                        rooms[index].get(), bytes));
    }
    progress.step(expert + 1, shape.experts);
  }
  Comparisons made;
  for (const layout::Kind kind : layout::kinds) {
    made.push_back(comparison(kind, found[static_cast<std::size_t>(kind)],
                              layout::matrix(kind, layout::tp_widths(shape)).bytes()));
  }
  return made;
}

report::Check check_of(const verify::TensorComparison& tensor, const JudgedTp& judged,
                       std::int64_t layer) {
  report::Check made;
  made.id = fmt::format("bytes.{}", layout::name(tensor.kind));
  made.group = judged.group_number;
  made.layer = layer;
  made.status = tensor.differing == 0 ? report::Status::passed : report::Status::failed;
  made.compared = tensor.compared;
  made.differing = tensor.differing;
  return made;
}

/// One finding a tensor that differs, placed at its first byte.
Result<report::Finding> finding_of(const verify::TensorComparison& tensor, const JudgedTp& judged,
                                   const Source& source, memory::Space& space) {
  const verify::ExpertDifference& first = tensor.experts.front();
  const Result<experts::ConvertedExpert> due = expected(source, first.expert, judged.rank);
  if (due.reason) return due.reason;
  const ByteVector& want = experts::bytes_of(*due, tensor.kind);
  ByteVector got(want.size());
  const auto bytes = static_cast<std::int64_t>(want.size());
  space.download(got, experts::tensor_of(judged.tp, tensor.kind).data.get() + first.expert * bytes);
  report::Finding made;
  made.cause = "unexplained";
  made.text = fmt::format("{} differs in {} of {} experts", layout::name(tensor.kind),
                          tensor.experts.size(), source.shape.experts);
  made.tensors = {std::string(layout::name(tensor.kind))};
  made.ranks = {judged.global_rank};
  for (const verify::ExpertDifference& each : tensor.experts) made.experts.push_back(each.expert);
  made.layer = source.layer;
  made.group = judged.group_number;
  made.explained = 0;
  made.first =
      verify::first_difference(place_of(judged, source.shape), tensor.kind, first, want, got);
  return made;
}

std::vector<float> downloaded(const Tensor& tensor, memory::Space& space) {
  std::vector<float> values(count(tensor.extents));
  space.download({reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)},
                 tensor.data.get());
  return values;
}

/// The scalars are moved, so their bits are the stock's.
report::Check scalar_check(experts::Scalar scalar, const JudgedTp& judged,
                           const std::vector<float>& want, memory::Space& space) {
  const std::vector<float> got = downloaded(experts::tensor_of(judged.tp, scalar), space);
  report::Check made;
  made.id = fmt::format("scalars.{}", experts::name(scalar));
  made.group = judged.group_number;
  made.compared = static_cast<std::int64_t>(want.size());
  for (std::size_t e = 0; e < want.size(); ++e) {
    const bool same = e < got.size() &&
                      std::bit_cast<std::uint32_t>(got[e]) == std::bit_cast<std::uint32_t>(want[e]);
    if (!same) ++made.differing;
  }
  made.status = made.differing == 0 ? report::Status::passed : report::Status::failed;
  return made;
}

report::Finding scalar_finding(const report::Check& check, experts::Scalar scalar,
                               const JudgedTp& judged) {
  report::Finding made;
  made.cause = "unexplained";
  made.text = fmt::format("{} of {} values of {} are not the stock's bits", check.differing,
                          check.compared, experts::name(scalar));
  made.tensors = {std::string(experts::name(scalar))};
  made.ranks = {judged.global_rank};
  made.layer = check.layer;
  made.group = judged.group_number;
  made.explained = 0;
  return made;
}

}  // namespace

Result<report::Report> judged(const JudgedTp& judged, const Source& source, memory::Space& space,
                              Progress& progress) {
  Result<Comparisons> tensors =
      source.payload ? Result<Comparisons>(compared_to_payload(judged, source, space))
                     : compared_to_slices(judged, source, space, progress);
  if (tensors.reason) return tensors.reason;
  const Result<experts::Scalars> scalars = source.scalars(0, source.shape.experts);
  if (scalars.reason) return scalars.reason;
  report::Report made;
  for (const verify::TensorComparison& tensor : *tensors) {
    made.checks.push_back(check_of(tensor, judged, source.layer));
    if (tensor.differing == 0) continue;
    Result<report::Finding> finding = finding_of(tensor, judged, source, space);
    if (finding.reason) return finding.reason;
    made.findings.push_back(std::move(*finding));
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    report::Check check = scalar_check(scalar, judged, experts::values_of(*scalars, scalar), space);
    check.layer = source.layer;
    if (check.differing > 0) made.findings.push_back(scalar_finding(check, scalar, judged));
    made.checks.push_back(std::move(check));
  }
  return made;
}

}  // namespace slicecheck::app
