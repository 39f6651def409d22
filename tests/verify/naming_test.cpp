// Every mutant of the catalogue is caught, and called what it is: the right cause, side, tensors,
// experts and ranks, and nothing beside it. Healthy layers are called nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "faults/byte_faults.h"
#include "faults/mutants.h"
#include "verify/name.h"

namespace slicecheck::verify {
namespace {

using faults::Expected;
using faults::Layer;
using faults::Mutant;

const Layer& healthy(const Mutant& mutant) {
  static std::vector<std::pair<Mutant, Layer>> layers;
  for (const auto& [key, layer] : layers) {
    if (key.shape == mutant.shape && key.payload == mutant.payload && key.data == mutant.data) {
      return layer;
    }
  }
  layers.emplace_back(mutant, mutant.data
                                  ? faults::padded_layer(mutant.payload, mutant.shape, *mutant.data)
                                  : faults::healthy_layer(mutant.payload, mutant.shape));
  return layers.back().second;
}

Subject subject_of(const Mutant& mutant, bool payload) {
  Subject subject;
  subject.layer = {mutant.shape, mutant.data};
  for (int r = 0; r < mutant.shape.tp; ++r) subject.ranks.push_back(r);
  if (payload) {
    const layout::Widths widths = mutant.data.value_or(layout::stock_widths(mutant.shape));
    subject.payload = mutant.payload;
    subject.due = DueScalars{
        experts::payload_scalars(mutant.payload.seed, 0, mutant.shape.experts, widths), true, {}};
  }
  return subject;
}

std::vector<report::Finding> judged(const Mutant& mutant, const Layer& layer, bool payload) {
  const Subject subject = subject_of(mutant, payload);
  const auto reference =
      payload ? std::make_unique<Reference>(subject.layer, mutant.payload)
              : std::make_unique<Reference>(subject.layer, loader_of(layer.stocks, subject.layer));
  Judge judge(*reference);
  Evidence all;
  for (std::int64_t rank = 0; rank < mutant.shape.tp; ++rank) {
    Evidence mine;  // as ranks that work apart would send it
    (payload ? judge_stock : judge_true_stock)(judge, rank, layer.stocks[rank], mine);
    judge_tp(judge, rank, layer.tps[rank], mine);
    join(all, unpacked(packed(mine)));
  }
  return findings(subject, all);
}

bool fits(const Expected& due, const report::Finding& finding) {
  const report::Side side = due.side == faults::Side::tp ? report::Side::tp : report::Side::stock;
  return finding.cause == due.cause && finding.side == side && finding.tensors == due.tensors &&
         finding.experts == due.experts &&
         finding.ranks == std::vector<int>(due.ranks.begin(), due.ranks.end()) &&
         (finding.severity == report::Severity::warning) == due.warning;
}

bool exactly(const Mutant& mutant, const std::vector<report::Finding>& found) {
  return found.size() == mutant.expected.size() &&
         std::all_of(mutant.expected.begin(), mutant.expected.end(), [&](const Expected& due) {
           return std::any_of(found.begin(), found.end(),
                              [&](const report::Finding& one) { return fits(due, one); });
         });
}

std::string listed(const std::vector<report::Finding>& found) {
  std::string text;
  for (const report::Finding& one : found) {
    text += "\n    " + one.cause + " " + std::string(report::name(one.side)) + " [";
    for (const auto& t : one.tensors) text += t + " ";
    text += "] experts [";
    for (const auto e : one.experts) text += std::to_string(e) + " ";
    text += "] ranks [";
    for (const auto r : one.ranks) text += std::to_string(r) + " ";
    text += "] also [";
    for (const auto& a : one.also_possible) text += a + " ";
    text += "] " + one.text;
  }
  return text;
}

TEST(Naming, every_mutant_is_called_what_it_is) {
  const std::vector<Mutant> all = faults::mutants(std::getenv("FULL") != nullptr);
  std::size_t named = 0;
  std::size_t count = 0;
  for (Mutant mutant : all) {
    for (const bool payload : {true, false}) {
      if (!payload && (mutant.needs_payload || mutant.fault == "payload-of-other-layer")) continue;
      // Bytes that are no scales are none where nothing says that they are a payload's.
      if (!payload) mutant.payload.kind = layout::PayloadKind::numeric;
      Layer layer = faults::copied(healthy(mutant));
      mutant.plant(layer);
      const auto found = judged(mutant, layer, payload);
      ++count;
      if (exactly(mutant, found)) {
        ++named;
        continue;
      }
      ADD_FAILURE() << mutant.fault << " (" << mutant.pattern << ") E " << mutant.shape.experts
                    << " H " << mutant.shape.hidden << " payload " << payload << listed(found);
    }
  }
  std::cout << named << " of " << count << " named exactly\n";
}

}  // namespace
}  // namespace slicecheck::verify
