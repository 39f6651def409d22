#include "app/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/evidence.h"
#include "app/on_host.h"
#include "base/must.h"
#include "verify/compare.h"
#include "verify/name.h"

namespace slicecheck::app {
namespace {

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
Comparisons compared_to_payload(const JudgedRank& judged, const Source& source,
                                memory::Space& space, Progress& progress) {
  const layout::Shape& shape = source.shape;
  Comparisons made;
  for (const layout::Kind kind : layout::kinds) {
    const memory::PayloadTensor due{*source.payload, kind,        layout::stock_widths(shape),
                                    shape.tp,        judged.rank, 0,
                                    shape.experts};
    const std::vector<memory::Difference> found =
        space.compare_payload(experts::tensor_of(judged.tp, kind).data.get(), due);
    made.push_back(comparison(kind, found, due.expert_bytes()));
    progress.moved();
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
Result<Comparisons> compared_to_slices(const JudgedRank& judged, const Source& source,
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

report::Check check_of(const verify::TensorComparison& tensor, const JudgedRank& judged,
                       std::int64_t layer) {
  report::Check made;
  made.id = bytes_check(tensor.kind);
  made.group = judged.group_number;
  made.layer = layer;
  made.status = tensor.differing == 0 ? report::Status::passed : report::Status::failed;
  made.compared = tensor.compared;
  made.differing = tensor.differing;
  return made;
}

std::vector<float> downloaded(const Tensor& tensor, memory::Space& space) {
  std::vector<float> values(count(tensor.extents));
  space.download({reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)},
                 tensor.data.get());
  return values;
}

/// The scalars are moved, so their bits are the stock's.
report::Check scalar_check(experts::Scalar scalar, const JudgedRank& judged,
                           const std::vector<float>& want, memory::Space& space) {
  const std::vector<float> got = downloaded(experts::tensor_of(judged.tp, scalar), space);
  report::Check made;
  made.id = scalars_check(scalar);
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

/// The payload's reference, or plain experts read again from the checkpoint; a read that fails is
/// kept in `unread`, and what stands in for the expert is then not believed.
verify::Loader loader(const Source& source, Reason& unread) {
  return [&source, &unread](std::int64_t expert) {
    Result<experts::PlainExpert> plain = source.plain(expert);
    if (!plain.reason) return std::move(*plain);
    unread = plain.reason;
    return experts::payload_expert({}, expert, layout::stock_widths(source.shape));
  };
}

std::unique_ptr<verify::Reference> reference_of(const Source& source, Reason& unread) {
  const verify::Case layer{source.shape, {}};
  if (source.payload) return std::make_unique<verify::Reference>(layer, *source.payload);
  return std::make_unique<verify::Reference>(layer, loader(source, unread));
}

/// Every expert's tensor that differs is judged on the host.
Reason add_wrong(verify::Evidence& evidence, const Comparisons& tensors, const JudgedRank& judged,
                 const Source& source, memory::Space& space, Progress& progress) {
  Reason unread;
  const std::unique_ptr<verify::Reference> reference = reference_of(source, unread);
  verify::Judge judge(*reference);
  for (const verify::TensorComparison& tensor : tensors) {
    ByteVector got(layout::matrix(tensor.kind, layout::tp_widths(source.shape)).bytes());
    for (const verify::ExpertDifference& each : tensor.experts) {
      const auto bytes = static_cast<std::int64_t>(got.size());
      space.download(got,
                     experts::tensor_of(judged.tp, tensor.kind).data.get() + each.expert * bytes);
      verify::judge_tensor(judge, {verify::Side::tp, tensor.kind, judged.rank, each.expert}, got,
                           evidence);
      progress.moved();
    }
  }
  // The stock is what the reference says; its block scales and scalars are judged for themselves.
  if (!source.payload) {
    verify::judge_true_stock(judge, judged.rank, on_host(judged.stock, space), evidence);
  }
  return unread;
}

/// The scalars as they are on this rank.
void add_scalars(verify::Evidence& evidence, const JudgedRank& judged, memory::Space& space) {
  auto mine = std::find_if(evidence.scalars.begin(), evidence.scalars.end(),
                           [&](const verify::RankScalars& s) { return s.rank == judged.rank; });
  if (mine == evidence.scalars.end()) {
    evidence.scalars.push_back({judged.rank, {}, {}, {}, {}, {}});
    mine = std::prev(evidence.scalars.end());
  }
  mine->first_expert = judged.stock.first_expert;
  for (const experts::Scalar scalar : experts::all_scalars) {
    const auto index = static_cast<std::size_t>(scalar);
    mine->stock[index] = downloaded(experts::tensor_of(judged.stock, scalar), space);
    mine->tp[index] = downloaded(experts::tensor_of(judged.tp, scalar), space);
  }
  mine->a1_gscale = downloaded(judged.stock.a1_gscale, space);
  mine->a2_gscale = downloaded(judged.stock.a2_gscale, space);
}

}  // namespace

std::string bytes_check(layout::Kind kind) { return fmt::format("bytes.{}", layout::name(kind)); }

std::string scalars_check(experts::Scalar scalar) {
  return fmt::format("scalars.{}", experts::name(scalar));
}

Result<Compared> compared(const JudgedRank& judged, const Source& source, memory::Space& space,
                          Progress& progress) {
  Result<Comparisons> tensors =
      source.payload ? Result<Comparisons>(compared_to_payload(judged, source, space, progress))
                     : compared_to_slices(judged, source, space, progress);
  if (tensors.reason) return tensors.reason;
  const Result<experts::Scalars> scalars = source.scalars(0, source.shape.experts);
  if (scalars.reason) return scalars.reason;
  Compared made;
  for (const verify::TensorComparison& tensor : *tensors) {
    made.checks.push_back(check_of(tensor, judged, source.layer));
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    made.checks.push_back(
        scalar_check(scalar, judged, experts::values_of(*scalars, scalar), space));
    made.checks.back().layer = source.layer;
  }
  if (Reason reason = add_wrong(made.evidence, *tensors, judged, source, space, progress))
    return reason;
  add_scalars(made.evidence, judged, space);
  return made;
}

verify::Judgement named(const Context& context, const Source& source,
                        const verify::Evidence& mine) {
  const verify::Evidence all = gathered(context.group, mine);
  if (context.group.rank() != 0) return {};
  const Result<experts::Scalars> scalars = source.scalars(0, source.shape.experts);
  must(!scalars.reason, "scalars that were read once cannot be read again");
  verify::Subject subject;
  subject.layer = {source.shape, {}};
  for (int rank = 0; rank < context.group.size(); ++rank) {
    subject.ranks.push_back(context.first_rank() + rank);
  }
  subject.group = context.group_number;
  subject.number = source.layer;
  subject.payload = source.payload;
  subject.due = verify::DueScalars{*scalars, source.payload.has_value(), source.up_by_gate};
  subject.moved = [&context] { context.progress.moved(); };
  return verify::judgement(subject, all);
}

}  // namespace slicecheck::app
