#include "app/checkpoint_mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/layer_audit.h"
#include "app/layer_judge.h"
#include "app/source.h"
#include "base/must.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/temporary_folder.h"
#include "faults/byte_faults.h"
#include "verify/sentence.h"

namespace slicecheck::app {
namespace {

using checkpoint::Format;
using checkpoint::ProjectionScales;
using checkpoint::WrittenLayer;
using layout::Projection;

constexpr layout::Shape shape{6, 128, 128, 2};
constexpr layout::Payload payload{layout::PayloadKind::numeric, 1, 0};
constexpr std::int64_t number = 3;  // of the layer
constexpr std::array<Format, 3> formats{Format::modelopt, Format::compressed_tensors,
                                        Format::fused};

/// A scale of a projection by its name in findings.
struct Part {
  std::string_view name;
  std::optional<float> ProjectionScales::*member = nullptr;  // null: the block scales
};
constexpr std::array<Part, 3> parts{{{"weight_scale", nullptr},
                                     {"weight_scale_2", &ProjectionScales::weight},
                                     {"input_scale", &ProjectionScales::input}}};

/// Takes a scale out.
void leave_out(WrittenLayer& layer, const Part& part, std::int64_t e, Projection projection) {
  if (part.member == nullptr) {
    experts::projection_of(layer.experts[e], projection).scale.clear();
  } else {
    (layer.scales[e][static_cast<std::size_t>(projection)].*part.member).reset();
  }
}

class Catalogue {
 public:
  std::vector<CheckpointMutant> made() {
    for (const Format format : formats) {
      format_ = format;
      add_missing();
      add_misfits();
      add_values();
      add_blocks();
      add_claims();
    }
    return std::move(made_);
  }

 private:
  using Plant = std::function<void(WrittenLayer&)>;

  void add(std::string_view fault, std::vector<std::string> tensors,
           std::vector<std::int64_t> experts, Plant plant) {
    CheckpointMutant mutant;
    mutant.fault = fault;
    mutant.format = format_;
    mutant.plant = std::move(plant);
    mutant.due.cause = fault;
    mutant.due.side = report::Side::checkpoint;
    mutant.due.tensors = std::move(tensors);
    mutant.due.experts = std::move(experts);
    mutant.pattern = fmt::format("{} {} of {}", name(format_),
                                 mutant.due.tensors.empty() ? "all" : mutant.due.tensors.front(),
                                 verify::listed_experts(mutant.due.experts));
    made_.push_back(std::move(mutant));
  }

  // Every scale of one expert, or in a fused tensor of all; all input scales; experts that are not
  // there.
  void add_missing() {
    add("scale-missing", {"w1.input_scale", "w2.input_scale", "w3.input_scale"}, {},
        [](WrittenLayer& layer) {
          for (auto& expert : layer.scales) {
            for (ProjectionScales& one : expert) one.input.reset();
          }
        });
    for (const Part& part : parts) {
      if (format_ == Format::fused) {
        add("scale-missing", {fmt::format("w1.{}", part.name), fmt::format("w3.{}", part.name)}, {},
            [&part](WrittenLayer& layer) {
              for (std::int64_t e = 0; e < shape.experts; ++e) {
                leave_out(layer, part, e, Projection::w1);
                leave_out(layer, part, e, Projection::w3);
              }
            });
        continue;
      }
      for (const Projection projection : layout::projections) {
        const std::string tensor = fmt::format("{}.{}", layout::name(projection), part.name);
        add("scale-missing", {tensor}, {3},
            [&part, projection](WrittenLayer& l) { leave_out(l, part, 3, projection); });
        add("scale-missing", {tensor}, {0, 5}, [&part, projection](WrittenLayer& l) {
          leave_out(l, part, 0, projection);
          leave_out(l, part, 5, projection);
        });
      }
    }
    if (format_ == Format::fused) return;
    for (const std::vector<std::int64_t>& experts :
         std::vector<std::vector<std::int64_t>>{{0}, {2}, {5}, {1, 4}}) {
      add("expert-missing", {}, experts, [experts](WrittenLayer& layer) {
        for (const std::int64_t e : experts) layer.experts[e] = {};
      });
    }
  }

  // Three quarters of the columns (half would be MXFP4); scales of two experts beside all
  // experts' weights.
  void add_misfits() {
    if (format_ == Format::fused) {
      for (const Projection projection : layout::projections) {
        if (projection == Projection::w3) continue;
        const bool down = projection == Projection::w2;
        add("scale-extent-mismatch",
            down ? std::vector<std::string>{"w2.weight_scale"}
                 : std::vector<std::string>{"w1.weight_scale", "w3.weight_scale"},
            {}, [down](WrittenLayer& layer) {
              for (std::int64_t e = 2; e < shape.experts; ++e) {
                for (const Projection p : layout::projections) {
                  if ((p == Projection::w2) != down) continue;
                  experts::projection_of(layer.experts[e], p).scale.clear();
                }
              }
            });
      }
      std::vector<std::string> all;
      for (const Projection projection : {Projection::w1, Projection::w2, Projection::w3}) {
        all.push_back(fmt::format("{}.input_scale", layout::name(projection)));
        all.push_back(fmt::format("{}.weight_scale_2", layout::name(projection)));
      }
      add("scale-extent-mismatch", all, {}, [](WrittenLayer& layer) { layer.scales.resize(2); });
      return;
    }
    for (const Projection projection : layout::projections) {
      add("scale-extent-mismatch", {fmt::format("{}.weight_scale", layout::name(projection))}, {4},
          [projection](WrittenLayer& layer) {
            ByteVector& scale = experts::projection_of(layer.experts[4], projection).scale;
            scale.resize(scale.size() / 4 * 3);
          });
    }
  }

  // Second-level scales that are none, differ between gate and up, or are divisors.
  void add_values() {
    const auto changed = [](std::vector<std::int64_t> experts, Projection projection, auto change) {
      return [experts = std::move(experts), projection, change](WrittenLayer& layer) {
        for (const std::int64_t e : experts) {
          std::optional<float>& value =
              layer.scales[e][static_cast<std::size_t>(projection)].weight;
          value = change(*value);
        }
      };
    };
    for (const float none : {0.0F, -1.0F, NAN, INFINITY, 1e-40F}) {
      add("scale-not-finite-positive", {"w2.weight_scale_2"}, {1},
          changed({1}, Projection::w2, [none](float) { return none; }));
      // A divisor has its own reciprocal: not every one is none.
      if (format_ == Format::compressed_tensors) break;
    }
    const std::vector<std::string> both{"w1.weight_scale_2", "w3.weight_scale_2"};
    for (const std::vector<std::int64_t>& experts :
         std::vector<std::vector<std::int64_t>>{{3}, {0, 2}, {0, 1, 2, 3, 4, 5}}) {
      for (const bool cut : {false, true}) {
        const bool all = experts.size() == static_cast<std::size_t>(shape.experts);
        add("gate-up-scale-mismatch", both, all ? std::vector<std::int64_t>{} : experts,
            changed(experts, Projection::w3, [](float value) { return 1.25F * value; }));
        made_.back().cut = cut;
      }
    }
    add("reciprocal-scale", {"w2.weight_scale_2"}, {2},
        changed({2}, Projection::w2, [](float value) { return 1 / value; }));
    made_.back().due.severity = report::Severity::warning;
  }

  void add_blocks() {
    const auto set = [](std::int64_t e, std::ptrdiff_t count, std::uint8_t value) {
      return [=](WrittenLayer& layer) {
        std::fill_n(layer.experts[e].w3.scale.begin() + 5, count, value);
      };
    };
    for (const std::uint8_t none : {std::uint8_t{0x7F}, std::uint8_t{0xFF}, std::uint8_t{0x81}}) {
      add("block-scale-invalid", {"w3.weight_scale"}, {2}, set(2, 3, none));
    }
    add("block-scale-saturated", {"w3.weight_scale"}, {4}, set(4, 100, 0x7E));
    made_.back().due.severity = report::Severity::warning;
  }

  // A config that says other numbers of the weights, or other sizes.
  void add_claims() {
    using checkpoint::WrittenClaims;
    const auto say = [this](auto WrittenClaims::*claim, auto value) {
      add("shape-unsupported", {}, {},
          [claim, value](WrittenLayer& layer) { layer.claims.*claim = value; });
    };
    say(&WrittenClaims::num_bits, 8);
    say(&WrittenClaims::type, "int");
    say(&WrittenClaims::group_size, 32);
    say(&WrittenClaims::hidden, 2 * shape.hidden);
    say(&WrittenClaims::intermediate, shape.intermediate + 64);
    // Padding would make as much of it.
    say(&WrittenClaims::intermediate, shape.intermediate - 64);
    made_.back().due.severity = report::Severity::warning;
  }

  Format format_ = Format::modelopt;
  std::vector<CheckpointMutant> made_;
};

/// Stocks and tp experts of the payload, which know w1's scales alone, against the checkpoint.
std::vector<report::Finding> said_of_cut(const checkpoint::Layer& layer) {
  const Result<experts::Scalars> scalars = layer.scalars(0, shape.experts);
  if (scalars.reason) bug(scalars.reason.text());
  faults::Mutant mutant;
  mutant.shape = shape;
  mutant.payload = payload;
  verify::Subject subject = subject_of(mutant, false);
  subject.number = number;
  subject.due = verify::DueScalars{*scalars, false, up_by_gate(layer)};
  verify::Reference reference(subject.layer, [&](std::int64_t e) { return *layer.expert(e); });
  verify::Judge judge(reference);
  return verify::findings(subject, evidence_of(judge, faults::healthy_layer(payload, shape), true));
}

}  // namespace

std::vector<CheckpointMutant> checkpoint_mutants() { return Catalogue().made(); }

std::vector<report::Finding> said_of(const CheckpointMutant& mutant) {
  WrittenLayer layer = checkpoint::payload_layer(mutant.format, payload, shape);
  layer.number = number;
  layer.shards = 2;
  mutant.plant(layer);
  const checkpoint::TemporaryFolder folder;
  Reason unwritten = folder.reason();
  if (!unwritten) unwritten = checkpoint::write_layer(folder.path(), layer);
  if (unwritten) bug(unwritten.text());
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::open(folder.path());
  if (opened.reason) bug(opened.reason.text());
  const Result<checkpoint::Layer> read = opened->layer_with_flaws(number);
  if (read.reason) bug(read.reason.text());
  if (mutant.cut) return said_of_cut(*read);
  const LayerAudit audit(number, *read);
  const Result<std::vector<verify::AuditFact>> facts = audit.facts(0, 1);
  if (facts.reason) bug(facts.reason.text());
  return audit.said(*facts, 0).findings;
}

}  // namespace slicecheck::app
