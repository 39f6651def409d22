// The audit of one layer of a checkpoint: facts that each rank reads, and what all ranks' facts say
// together.
#pragma once

#include "checkpoint/layer.h"
#include "report/report.h"
#include "verify/audit.h"

namespace slicecheck::app {

/// A check `scales.audit` of a layer.
report::Check audit_line(std::int64_t layer, report::Status status, std::string text);

/// One layer, which outlives this: every rank reads the second-level scales, each its own block
/// scales.
class LayerAudit {
 public:
  LayerAudit(std::int64_t number, const checkpoint::Layer& layer);

  /// The facts of rank `rank` of `size`; the second-level scales are told by rank 0. One
  /// projection's block scales in memory at a time.
  Result<std::vector<verify::AuditFact>> facts(int rank, int size) const;

  /// What the facts of all ranks say: findings, and the layer's one line, at `tp` ranks where this
  /// is not 0.
  report::Report said(const std::vector<verify::AuditFact>& all, std::int64_t tp) const;

 private:
  void judge_scales(std::vector<verify::AuditFact>& facts) const;
  Reason uncut(std::int64_t tp) const;
  report::Check line_of(std::int64_t wrong, std::int64_t tp) const;

  std::int64_t number_;
  const checkpoint::Layer& layer_;
  std::vector<verify::AuditedExpert> experts_;
};

}  // namespace slicecheck::app
