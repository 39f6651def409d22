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
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> sentences{
      {{"shape-unsupported", "tensors are not those of NVFP4 experts that can be cut"},
       {"scale-missing", "scales are absent"},
       {"scale-extent-mismatch", "scales do not have the extents that belong to their weights"},
       {"scale-not-finite-positive", "scales are not finite positive normal numbers"},
       {"gate-up-scale-mismatch", "w1 and w3 carry different weight scales"},
       {"scale-dropped", "scales are all exactly 1.0, as where they were left out"},
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

// A layer's scales, and the facts that they give.
struct Together {
  std::int64_t layer;
  const std::vector<AuditedExpert>& experts;
  std::vector<AuditFact>& facts;

  void add(std::string_view cause, const std::string& tensor, std::int64_t expert,
           const std::string& text) const {
    facts.push_back({layer, std::string(cause), tensor, expert, 0, text});
  }
};

std::vector<Projection> projections_of(bool down) {
  if (down) return {Projection::w2};
  return {Projection::w1, Projection::w3};
}

// A calibrated maximum over 2688 is not exactly 1 in any expert, let alone in all.
void add_dropped(const Together& all, bool down, std::optional<float> AuditedScales::*member,
                 std::string_view tail) {
  for (const AuditedExpert& expert : all.experts) {
    for (const Projection projection : projections_of(down)) {
      const std::optional<float>& value = expert[static_cast<std::size_t>(projection)].*member;
      if (value && *value != 1.0F) return;
    }
  }
  for (std::size_t e = 0; e < all.experts.size(); ++e) {
    for (const Projection projection : projections_of(down)) {
      if (!(all.experts[e][static_cast<std::size_t>(projection)].*member)) continue;
      all.add("scale-dropped", fmt::format("{}{}", layout::name(projection), tail),
              static_cast<std::int64_t>(e), "");
    }
  }
}

// The largest input scale over all experts; nothing where there is none, or one that is wrong for
// itself.
std::optional<float> largest_input(const std::vector<AuditedExpert>& experts, bool down) {
  std::optional<float> most;
  for (const AuditedExpert& expert : experts) {
    for (const Projection projection : projections_of(down)) {
      const std::optional<float>& input = expert[static_cast<std::size_t>(projection)].input;
      if (!input) continue;
      if (!finite_positive(*input)) return {};
      most = std::max(most.value_or(0), *input);
    }
  }
  return most;
}

// A value derived of sound factors; whether it is sound itself.
bool sound(const Together& all, const std::string& tensor, std::int64_t expert, float value) {
  if (finite_positive(value)) return true;
  const std::string_view what = std::isinf(value) ? "infinite" : value == 0 ? "zero" : "denormal";
  all.add("scale-not-finite-positive", tensor, expert,
          fmt::format("{} is {} though its factors are not", tensor, what));
  return false;
}

// The scalars that a stock derives, as Layer::scalars does; each where its factors are sound.
void add_derived(const Together& all) {
  std::array<std::optional<float>, 2> gscales;
  const std::array<std::optional<float>, 2> largest{largest_input(all.experts, false),
                                                    largest_input(all.experts, true)};
  for (const std::size_t i : {0, 1}) {
    if (!largest[i]) continue;
    const float gscale = 1.0F / *largest[i];
    bool holds = true;
    for (std::size_t e = 0; e < all.experts.size(); ++e) {
      holds = sound(all, i == 0 ? "a1_gscale" : "a2_gscale", static_cast<std::int64_t>(e), gscale);
    }
    if (holds) gscales[i] = gscale;
  }
  for (std::size_t e = 0; e < all.experts.size(); ++e) {
    const auto number = static_cast<std::int64_t>(e);
    const std::optional<float>& gate = all.experts[e][0].weight;
    const std::optional<float>& down = all.experts[e][2].weight;
    if (largest[0] && gate && finite_positive(*gate)) {
      const float alpha = *largest[0] * *gate;
      const bool holds = sound(all, "g1_alphas", number, alpha);
      if (holds && gscales[1]) sound(all, "g1_scale_c", number, alpha * *gscales[1]);
    }
    if (largest[1] && down && finite_positive(*down)) {
      sound(all, "g2_alphas", number, *largest[1] * *down);
    }
  }
}

}  // namespace

void audit_scales(std::int64_t layer, std::int64_t expert, const AuditedExpert& scales,
                  std::vector<AuditFact>& facts) {
  const auto judge = [&](const std::optional<float>& value, const std::optional<std::string>& due,
                         const std::string& tensor) {
    if (!value && due) facts.push_back({layer, "scale-missing", tensor, expert, 0, *due});
    if (value && !finite_positive(*value)) {
      facts.push_back({layer, "scale-not-finite-positive", tensor, expert, *value, ""});
    }
  };
  for (const Projection projection : layout::projections) {
    const AuditedScales& one = scales[static_cast<std::size_t>(projection)];
    const std::string name(layout::name(projection));
    judge(one.weight, "", name + ".weight_scale_2");
    judge(one.input, one.input_due, name + ".input_scale");
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

void audit_together(std::int64_t layer, const std::vector<AuditedExpert>& experts,
                    std::vector<AuditFact>& facts) {
  for (const bool down : {false, true}) {
    add_dropped({layer, experts, facts}, down, &AuditedScales::weight, ".weight_scale_2");
    add_dropped({layer, experts, facts}, down, &AuditedScales::input, ".input_scale");
  }
  add_derived({layer, experts, facts});
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

Reason uncut(std::int64_t experts, const layout::Widths& widths, std::int64_t tp) {
  const auto cuts = [&](std::int64_t ways) {
    const layout::Shape shape{experts, widths.hidden, widths.intermediate, ways};
    Reason reason = layout::unsupported(shape);
    if (reason || experts % ways == 0) return reason;
    return Reason(
        fmt::format("{} ranks x {} experts is not {} experts", ways, experts / ways, experts),
        "shape-unsupported");
  };
  if (tp != 0) return cuts(tp);
  for (std::int64_t ways = 2; ways <= experts; ++ways) {
    if (!cuts(ways)) return {};
  }
  return Reason(fmt::format("no tp can cut E {}, H {}, I {}: E must be a multiple of tp, I of tp x "
                            "{} and H of {}",
                            experts, widths.hidden, widths.intermediate, layout::slice_multiple,
                            layout::hidden_multiple),
                "shape-unsupported");
}

std::string cuttable(std::int64_t experts, const layout::Widths& widths, std::int64_t tp) {
  constexpr std::size_t others_max = 4;
  std::set<std::int64_t> ways{2, 4, 8, 16};
  if (tp != 0) ways.insert(tp);
  std::erase_if(ways,
                [&](std::int64_t one) { return static_cast<bool>(uncut(experts, widths, one)); });
  const bool usual = !ways.empty();
  for (std::int64_t one = 2; !usual && ways.size() < others_max && one <= experts; ++one) {
    if (!uncut(experts, widths, one)) ways.insert(one);
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
