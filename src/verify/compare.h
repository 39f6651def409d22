// Every byte of a tensor against what must lie there, and the place of the first that differs: in
// the tensor as stored, and in the checkpoint's own terms.
#pragma once

#include <functional>
#include <vector>

#include "experts/convert.h"
#include "report/report.h"

namespace slicecheck::verify {

/// The tensors that are judged: of which rank, of which experts, at which slice.
struct Judged {
  report::Side side = report::Side::tp;
  int rank = 0;          // global
  layout::Widths whole;  // H and I of the whole experts
  std::int64_t tp = 1;   // 1: a stock
  std::int64_t d = 0;    // slice; 0 for a stock
  std::int64_t first_expert = 0;
  std::int64_t experts = 0;

  layout::Widths widths() const { return {whole.hidden, whole.intermediate / tp}; }
};

/// One expert's part of a tensor that differs. `first` counts bytes from the expert's start.
struct ExpertDifference {
  std::int64_t expert = 0;  // global
  std::int64_t differing = 0;
  std::int64_t first = 0;
};

/// How one tensor of one rank compares: bytes, and the experts that differ, in order.
struct TensorComparison {
  layout::Kind kind = layout::Kind::w13;
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  std::vector<ExpertDifference> experts;
};

/// What must lie in expert `expert` (global), converted, at the judged slice.
using ExpectedExpert = std::function<experts::ConvertedExpert(std::int64_t expert)>;

/// The four tensors against what is expected, expert by expert; `got` gives a tensor's bytes, host,
/// [experts, rows, row_bytes]. One expert is expected at a time.
std::vector<TensorComparison> compare(const Judged& judged, const ExpectedExpert& expected,
                                      const std::function<Bytes(layout::Kind)>& got);

/// The checkpoint's place that is due at `offset` of an expert's tensor.
report::Logical logical_place(const Judged& judged, layout::Kind kind, std::int64_t expert,
                              std::int64_t offset);

/// The place of one differing byte, with up to 16 bytes of each side from there on, and no origin.
/// want and got are that expert's bytes of the tensor.
report::First first_difference(const Judged& judged, layout::Kind kind,
                               const ExpertDifference& difference, Bytes want, Bytes got);

/// Up to 16 bytes from `offset` on, in hex.
std::string hex_from(Bytes bytes, std::int64_t offset);

}  // namespace slicecheck::verify
