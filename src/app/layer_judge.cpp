#include "app/layer_judge.h"

namespace slicecheck::app {

using faults::Layer;
using faults::Mutant;
using verify::Evidence;

verify::Subject subject_of(const Mutant& mutant, bool by_payload) {
  verify::Subject subject;
  subject.layer = {mutant.shape, mutant.data};
  for (int rank = 0; rank < mutant.shape.tp; ++rank) subject.ranks.push_back(rank);
  if (!by_payload) return subject;
  const layout::Widths widths = mutant.data.value_or(layout::stock_widths(mutant.shape));
  subject.payload = mutant.payload;
  subject.due = verify::DueScalars{
      experts::payload_scalars(mutant.payload.seed, 0, mutant.shape.experts, widths), true, {}};
  return subject;
}

Evidence evidence_of(verify::Judge& judge, const Layer& layer, bool by_payload) {
  Evidence all;
  for (std::int64_t rank = 0; rank < layer.shape.tp; ++rank) {
    (by_payload ? verify::judge_stock : verify::judge_true_stock)(judge, rank, layer.stocks[rank],
                                                                  all);
    verify::judge_tp(judge, rank, layer.tps[rank], all);
  }
  return all;
}

std::vector<report::Finding> beside_true_stocks(const Mutant& mutant, const Layer& layer) {
  const verify::Subject subject = subject_of(mutant, false);
  verify::Reference reference(subject.layer, verify::loader_of(layer.stocks, subject.layer));
  verify::Judge judge(reference);
  return verify::findings(subject, evidence_of(judge, layer, false));
}

}  // namespace slicecheck::app
