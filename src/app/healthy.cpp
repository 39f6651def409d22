#include "app/healthy.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "app/layer_audit.h"
#include "app/layer_judge.h"
#include "app/source.h"
#include "base/must.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/temporary_folder.h"
#include "checkpoint/write.h"
#include "faults/byte_faults.h"

namespace slicecheck::app {
namespace {

using checkpoint::Format;
using faults::Layer;
using faults::Mutant;

constexpr std::int64_t payloads = 3;  // then the three formats

class Draw {
 public:
  explicit Draw(const HealthyLayout& layout)
      : draw_(layout::mix64(layout.seed + static_cast<std::uint64_t>(layout.number))) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(draw_() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::uint64_t word() { return draw_(); }

 private:
  std::mt19937_64 draw_;
};

Mutant random_layout(const HealthyLayout& layout, Draw& draw) {
  const std::int64_t kind = layout.number % (2 * payloads);
  Mutant made;
  const std::int64_t tp = draw.pick(2, 4);
  made.shape = {tp * draw.pick(1, 2), 128 * draw.pick(1, 3), 64 * tp * draw.pick(1, 2), tp};
  made.payload = {
      kind < payloads ? static_cast<layout::PayloadKind>(kind) : layout::PayloadKind::numeric,
      draw.word(), 0};
  // Some are padded: a few blocks of 16 less of data than the shape has.
  if (kind < payloads && draw.pick(0, 3) == 0) {
    made.data = {made.shape.hidden - 16 * draw.pick(0, 3),
                 made.shape.intermediate - 16 * draw.pick(0, 3)};
  }
  return made;
}

bool payload_alarmed(const Mutant& layout) {
  const Layer layer = layout.data ? faults::padded_layer(layout.payload, layout.shape, *layout.data)
                                  : faults::healthy_layer(layout.payload, layout.shape);
  const verify::Subject subject = subject_of(layout, true);
  verify::Reference reference(subject.layer, layout.payload);
  verify::Judge judge(reference);
  if (!verify::findings(subject, evidence_of(judge, layer, true)).empty()) return true;
  return layout.payload.kind != layout::PayloadKind::bytes &&
         !beside_true_stocks(layout, layer).empty();
}

// The layer as a checkpoint of any names, shards and input scales, which differ from expert to
// expert and between w1 and w3; the largest is the payload's.
checkpoint::WrittenLayer written(const Layer& layer, Format format, Draw& draw) {
  checkpoint::WrittenLayer made = checkpoint::payload_layer(format, layer.payload, layer.shape);
  const std::int64_t largest = draw.pick(0, layer.shape.experts - 1);
  made.number = draw.pick(0, 60);
  made.names = static_cast<std::size_t>(draw.pick(0, 2));
  made.shards = draw.pick(1, 3);
  for (std::int64_t e = 0; e < layer.shape.experts; ++e) {
    auto& [w1, w3, w2] = made.scales[e];
    for (checkpoint::ProjectionScales* const one : {&w1, &w2}) {
      if (e != largest) *one->input *= static_cast<float>(draw.pick(8, 16)) / 16;
    }
    *w3.input /= 2;
  }
  return made;
}

bool audit_alarmed(const checkpoint::Layer& layer) {
  const LayerAudit audit(0, layer);
  const Result<std::vector<verify::AuditFact>> facts = audit.facts(0, 1);
  return facts.reason || !audit.said(*facts, 0).findings.empty();
}

// The layer's stocks and tp experts, made of the payload, against the checkpoint that is read back.
bool checkpoint_alarmed(const Mutant& layout, Format format, Draw& draw) {
  const Layer layer = faults::healthy_layer(layout.payload, layout.shape);
  const checkpoint::WrittenLayer plan = written(layer, format, draw);
  const checkpoint::TemporaryFolder folder;
  Reason unwritten = folder.reason();
  if (!unwritten) unwritten = checkpoint::write_layer(folder.path(), plan);
  if (unwritten) bug(unwritten.text());
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::open(folder.path());
  if (opened.reason || opened->layers() != std::vector{plan.number}) return true;
  const Result<checkpoint::Layer> read = opened->layer(plan.number);
  if (read.reason || read->format() != format || audit_alarmed(*read)) return true;
  const Result<experts::Scalars> scalars = read->scalars(0, layout.shape.experts);
  if (scalars.reason) return true;
  verify::Subject subject = subject_of(layout, false);
  subject.due = verify::DueScalars{*scalars, false, up_by_gate(*read)};
  verify::Reference reference(subject.layer, [&](std::int64_t e) { return *read->expert(e); });
  verify::Judge judge(reference);
  return !verify::findings(subject, evidence_of(judge, layer, true)).empty();
}

}  // namespace

bool alarmed(const HealthyLayout& layout) {
  Draw draw(layout);
  const Mutant drawn = random_layout(layout, draw);
  const std::int64_t kind = layout.number % (2 * payloads);
  if (kind < payloads) return payload_alarmed(drawn);
  return checkpoint_alarmed(drawn, static_cast<Format>(kind - payloads), draw);
}

}  // namespace slicecheck::app
