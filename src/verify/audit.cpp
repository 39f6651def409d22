#include "verify/audit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "verify/scalar_flaw.h"
#include "verify/sentence.h"

namespace slicecheck::verify {
namespace {

using layout::Projection;

std::string_view happened(std::string_view cause) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> sentences{
      {{"scale-missing", "scales are absent"},
       {"scale-extent-mismatch", "scales do not have the extents that belong to their weights"},
       {"scale-not-finite-positive", "scales are not finite positive normal numbers"},
       {"gate-up-scale-mismatch", "w1 and w3 carry different weight scales"},
       {"reciprocal-scale", "weight scales are above 1, as divisors are"},
       {"block-scale-invalid", "block scales are NaN or have a sign bit"},
       {"block-scale-saturated", "many block scales are saturated (0x7E)"}}};
  const auto found = std::find_if(sentences.begin(), sentences.end(),
                                  [&](const auto& entry) { return entry.first == cause; });
  return found == sentences.end() ? cause : found->second;
}

std::string number_text(std::string_view cause, double sum, double largest) {
  if (cause == "gate-up-scale-mismatch")
    return fmt::format("; the largest ratio is {:.6g}", largest);
  if (cause == "reciprocal-scale") return fmt::format("; the largest is {:.6g}", largest);
  if (cause.starts_with("block-scale")) {
    return fmt::format("; {} blocks", static_cast<std::int64_t>(sum));
  }
  return "";
}

}  // namespace

void audit_scales(std::int64_t layer, std::int64_t expert, const AuditedExpert& scales,
                  bool inputs_due, std::vector<AuditFact>& facts) {
  const auto judge = [&](const std::optional<float>& value, bool due, const std::string& tensor) {
    if (!value && due) facts.push_back({layer, "scale-missing", tensor, expert, 0, ""});
    if (value && !finite_positive(*value)) {
      facts.push_back({layer, "scale-not-finite-positive", tensor, expert, *value, ""});
    }
  };
  for (const Projection projection : layout::projections) {
    const AuditedScales& one = scales[static_cast<std::size_t>(projection)];
    const std::string name(layout::name(projection));
    judge(one.weight, true, name + ".weight_scale_2");
    judge(one.input, inputs_due, name + ".input_scale");
    if (one.weight && finite_positive(*one.weight) && *one.weight > 1) {
      facts.push_back(
          {layer, "reciprocal-scale", name + ".weight_scale_2", expert, *one.weight, ""});
    }
  }
  const std::optional<float>& gate = scales[0].weight;
  const std::optional<float>& up = scales[1].weight;
  if (!gate || !up || !finite_positive(*gate) || !finite_positive(*up)) return;
  if (same_bits(*gate, *up)) return;
  const double ratio = static_cast<double>(std::max(*gate, *up)) / std::min(*gate, *up);
  for (const char* tensor : {"w1.weight_scale_2", "w3.weight_scale_2"}) {
    facts.push_back({layer, "gate-up-scale-mismatch", tensor, expert, ratio, ""});
  }
}

void audit_blocks(std::int64_t layer, std::int64_t expert, Projection projection, Bytes scales,
                  std::vector<AuditFact>& facts) {
  std::int64_t invalid = 0;
  std::int64_t saturated = 0;
  for (const std::uint8_t byte : scales) {
    invalid += (byte & 0x80U) != 0 || byte == 0x7F;
    saturated += byte == 0x7E;
  }
  const std::string tensor = std::string(layout::name(projection)) + ".weight_scale";
  if (invalid > 0) {
    facts.push_back(
        {layer, "block-scale-invalid", tensor, expert, static_cast<double>(invalid), ""});
  }
  if (saturated * 50 > static_cast<std::int64_t>(scales.size())) {
    facts.push_back(
        {layer, "block-scale-saturated", tensor, expert, static_cast<double>(saturated), ""});
  }
}

std::string differing_maximum(const std::vector<AuditedExpert>& experts, std::int64_t tp) {
  const auto held = static_cast<std::int64_t>(experts.size()) / std::max<std::int64_t>(tp, 1);
  if (tp < 2 || held == 0) return "";
  const auto largest = [&](std::int64_t rank, std::initializer_list<Projection> projections) {
    float most = 0;
    for (std::int64_t e = rank * held; e < (rank + 1) * held; ++e) {
      for (const Projection projection : projections) {
        const auto& input = experts[e][static_cast<std::size_t>(projection)].input;
        if (input) most = std::max(most, *input);
      }
    }
    return most;
  };
  std::vector<std::string> differ;
  for (const bool down : {false, true}) {
    std::set<std::uint32_t> values;
    for (std::int64_t rank = 0; rank < tp; ++rank) {
      values.insert(
          std::bit_cast<std::uint32_t>(down ? largest(rank, {Projection::w2})
                                            : largest(rank, {Projection::w1, Projection::w3})));
    }
    if (values.size() == 1) continue;
    differ.push_back(fmt::format("{} takes {} values, {:.6g} to {:.6g}", down ? "a2" : "a13",
                                 values.size(), std::bit_cast<float>(*values.begin()),
                                 std::bit_cast<float>(*values.rbegin())));
  }
  if (differ.empty()) return "";
  return fmt::format("a maximum per rank at tp {} would differ: {}", tp, fmt::join(differ, ", "));
}

std::string cuttable(std::int64_t experts, const layout::Widths& widths) {
  std::vector<int> ways;
  for (const int tp : {2, 4, 8, 16}) {
    const layout::Shape shape{experts, widths.hidden, widths.intermediate, tp};
    if (!layout::unsupported(shape) && experts % tp == 0) ways.push_back(tp);
  }
  return ways.empty() ? "none" : fmt::format("{}", fmt::join(ways, ", "));
}

std::vector<report::Finding> audit_findings(
    const std::vector<AuditFact>& facts,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& experts_of_layers) {
  struct Said {
    std::set<std::int64_t> experts;
    double sum = 0;
    double largest = 0;
    std::string text;
  };
  std::map<std::pair<std::int64_t, std::string>, std::map<std::string, Said>> causes;
  for (const AuditFact& fact : facts) {
    Said& said = causes[{fact.layer, fact.cause}][fact.tensor];
    said.experts.insert(fact.expert);
    said.sum += fact.number;
    said.largest = std::max(said.largest, fact.number);
    if (said.text.empty()) said.text = fact.text;
  }
  std::vector<report::Finding> made;
  for (const auto& [key, tensors] : causes) {
    // Tensors that are wrong in the same experts are said together.
    std::map<std::set<std::int64_t>, std::pair<std::vector<std::string>, Said>> alike;
    for (const auto& [tensor, said] : tensors) {
      auto& [names, all] = alike[said.experts];
      names.push_back(tensor);
      all.sum += said.sum;
      all.largest = std::max(all.largest, said.largest);
      if (all.text.empty()) all.text = said.text;
    }
    const auto layer =
        std::find_if(experts_of_layers.begin(), experts_of_layers.end(),
                     [layer = key.first](const auto& one) { return one.first == layer; });
    for (const auto& [experts, what] : alike) {
      report::Finding one;
      one.cause = key.second;
      one.side = report::Side::checkpoint;
      one.layer = key.first;
      one.tensors = what.first;
      const bool warning = one.cause == "reciprocal-scale" || one.cause == "block-scale-saturated";
      one.severity = warning ? report::Severity::warning : report::Severity::error;
      if (layer == experts_of_layers.end() ||
          static_cast<std::int64_t>(experts.size()) != layer->second) {
        one.experts.assign(experts.begin(), experts.end());
      }
      one.text = fmt::format("layer {}: {}: {} of {}{}", one.layer, happened(one.cause),
                             fmt::join(one.tensors, ", "), listed_experts(one.experts),
                             number_text(one.cause, what.second.sum, what.second.largest));
      if (!what.second.text.empty()) one.text += "; " + what.second.text;
      made.push_back(one);
    }
  }
  return made;
}

}  // namespace slicecheck::verify
