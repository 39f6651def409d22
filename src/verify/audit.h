// The scale contract of a checkpoint's layer: what each expert's scales are, told as small facts
// that ranks can send to each other; findings are made of all of them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "experts/experts.h"
#include "report/report.h"

namespace slicecheck::verify {

/// The second-level scales of one projection, as multipliers; nothing where the checkpoint has
/// none. `input_due` is who says that an input scale must be there, maybe no one by name; nothing
/// where it may be absent.
struct AuditedScales {
  std::optional<float> weight;
  std::optional<float> input;
  std::optional<std::string> input_due;
};

/// By layout::Projection: w1, w3, w2.
using AuditedExpert = std::array<AuditedScales, 3>;

/// Something that is wrong with one tensor of one expert of one layer. `number` is a count, or a
/// ratio, by cause; `text` is what a reader of the files said of it, on one line.
struct AuditFact {
  std::int64_t layer = 0;
  std::string cause;
  std::string tensor;  // "w1.weight_scale_2", "w2.input_scale", "w3.weight_scale"
  std::int64_t expert = 0;
  double number = 0;
  std::string text;
};

/// Facts of an expert's second-level scales: missing, not finite and positive, gate unlike up, a
/// weight scale above 1.
void audit_scales(std::int64_t layer, std::int64_t expert, const AuditedExpert& scales,
                  std::vector<AuditFact>& facts);

/// Facts of a layer's second-level scales together: all of w1 and w3, or of w2, are exactly 1.0; or
/// what the stock derives of sound ones is no finite positive normal number.
void audit_together(std::int64_t layer, const std::vector<AuditedExpert>& experts,
                    std::vector<AuditFact>& facts);

/// Facts of one projection's block scales: NaN, a sign bit, or more than 2 % at 448.
void audit_blocks(std::int64_t layer, std::int64_t expert, layout::Projection projection,
                  Bytes scales, std::vector<AuditFact>& facts);

/// What a maximum of input scales over each rank's own experts would be at `tp` ranks, where it is
/// not the same on all of them: the sentence; else empty.
std::string differing_maximum(const std::vector<AuditedExpert>& experts, std::int64_t tp);

/// Why `tp` ranks cannot cut these experts, or where `tp` is 0 why no number of ranks can; or
/// nothing.
Reason uncut(std::int64_t experts, const layout::Widths& widths, std::int64_t tp);

/// "2, 4, 8": which of 2, 4, 8, 16 and `tp` can cut these experts; the first others where none can.
std::string cuttable(std::int64_t experts, const layout::Widths& widths, std::int64_t tp);

/// One finding a cause, layer and set of experts. `experts` of each layer say what all are.
std::vector<report::Finding> audit_findings(
    const std::vector<AuditFact>& facts,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& experts_of_layers);

}  // namespace slicecheck::verify
