// The laws of what is found: a fault where it was planted and nowhere else, and nothing where
// nothing was.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "properties/faults/plants.h"
#include "properties/law.h"
#include "verify/evidence.h"

namespace slicecheck::properties {
namespace {

using faults::Side;

// What `verify` says of the layer, every rank's evidence sent as ranks that work apart send it.
std::vector<report::Finding> findings_of(const Case& given, const Subject& subject,
                                         const faults::Layer& layer) {
  verify::Subject about;
  about.layer = {given.shape, {}};
  for (int rank = 0; rank < given.shape.tp; ++rank) about.ranks.push_back(rank);
  about.payload = layer.payload;
  about.due =
      verify::DueScalars{experts::payload_scalars(layer.payload.seed, 0, given.shape.experts,
                                                  layout::stock_widths(given.shape)),
                         true,
                         {}};
  verify::Reference reference(about.layer, layer.payload);
  verify::Judge judge(reference);
  verify::Evidence all;
  for (std::int64_t rank = 0; rank < given.shape.tp; ++rank) {
    verify::Evidence mine;
    verify::judge_stock(judge, rank, layer.stocks[rank], mine);
    verify::judge_tp(judge, rank, layer.tps[rank], mine);
    verify::join(all, verify::unpacked(verify::packed(mine)));
  }
  std::vector<report::Finding> made = subject.findings(about, all);
  // The few block scales of a small tensor are saturated by chance: a true warning, and no fault.
  std::erase_if(made, [](const report::Finding& one) {
    return one.cause == "block-scale-saturated" && one.severity == report::Severity::warning;
  });
  return made;
}

// The places that a finding names; an empty list means all.
std::vector<Changed> places_of(const report::Finding& finding, const layout::Shape& shape) {
  const Side side = finding.side == report::Side::tp ? Side::tp : Side::stock;
  std::vector<Changed> made;
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    const bool named = std::count(finding.ranks.begin(), finding.ranks.end(), rank) > 0;
    if (!finding.ranks.empty() && !named) continue;
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      const bool held = side == Side::tp || e / shape.experts_per_rank() == rank;
      const bool meant = finding.experts.empty() ||
                         std::count(finding.experts.begin(), finding.experts.end(), e) > 0;
      if (!held || !meant) continue;
      for (const std::string& tensor : finding.tensors) made.push_back({side, tensor, rank, e});
    }
  }
  return made;
}

std::string text(const report::Finding& finding) {
  return fmt::format("{} ({}; tensors {}; ranks {}; experts {})", finding.cause,
                     report::name(finding.side), fmt::join(finding.tensors, " "),
                     fmt::join(finding.ranks, " "), fmt::join(finding.experts, " "));
}

std::string text(const Changed& place) {
  return fmt::format("{} of expert {} on rank {} of the {}", place.tensor, place.expert, place.rank,
                     place.side == Side::tp ? "tp experts" : "stock");
}

bool is_called(const report::Finding& finding, const std::vector<std::string>& causes) {
  return std::any_of(causes.begin(), causes.end(), [&](const std::string& cause) {
    return finding.cause == cause ||
           std::count(finding.also_possible.begin(), finding.also_possible.end(), cause) > 0;
  });
}

// What is said of a rank's scalars as a whole is true where any of them has changed.
bool is_said_rightly(const report::Finding& finding, const Changed& place,
                     const std::set<Changed>& changed) {
  if (changed.contains(place)) return true;
  return finding.experts.empty() && finding.cause.starts_with("scalars-") &&
         std::any_of(changed.begin(), changed.end(), [&](const Changed& each) {
           return each.side == place.side && each.tensor == place.tensor && each.rank == place.rank;
         });
}

// The findings name what has changed, all of it, and nothing that has not.
Reason elsewhere(const std::vector<report::Finding>& found, const PlantedLayer& planted,
                 const layout::Shape& shape) {
  std::set<Changed> named;
  for (const report::Finding& each : found) {
    for (const Changed& place : places_of(each, shape)) {
      if (!is_said_rightly(each, place, planted.changed)) {
        return Reason(fmt::format("{} is said of {}, which is sound", text(each), text(place)));
      }
      named.insert(place);
    }
  }
  for (const Changed& place : planted.changed) {
    if (named.contains(place)) continue;
    return Reason(fmt::format("nothing is said of {}, which is wrong{}", text(place),
                              found.empty() ? "" : ", but " + text(found.front())));
  }
  return {};
}

Reason miscalled(const std::vector<report::Finding>& found, const PlantedLayer& planted) {
  for (const report::Finding& each : found) {
    if (is_called(each, planted.causes)) continue;
    return Reason(
        fmt::format("{} is said, expected {}", text(each), fmt::join(planted.causes, " or ")));
  }
  return {};
}

Reason a_fault_is_found_where_it_was_planted(const Case& given, const Subject& subject) {
  const PlantedLayer planted = planted_layer(given);
  const std::vector<report::Finding> found = findings_of(given, subject, planted.layer);
  Reason reason = elsewhere(found, planted, given.shape);
  return reason ? reason : miscalled(found, planted);
}

// One order of experts is one finding, of the side where they lie so and of that alone.
Reason a_placement_is_named(const Case& given, const Subject& subject) {
  const PlantedLayer planted = misplaced_layer(given);
  const std::vector<report::Finding> found = findings_of(given, subject, planted.layer);
  if (found.size() != 1) {
    return Reason(fmt::format("{} findings, expected one of {}{}", found.size(),
                              planted.causes.front(),
                              found.empty() ? "" : "; the first is " + text(found.front())));
  }
  Reason reason = miscalled(found, planted);
  if (reason) return reason;
  const report::Finding& one = found.front();
  if (given.placement == Placement::rank_lies) {
    if (one.ranks == std::vector<int>{static_cast<int>(given.fault_rank)}) return {};
    return Reason(fmt::format("{}, expected rank {}", text(one), given.fault_rank));
  }
  const std::vector<Changed> places = places_of(one, given.shape);
  for (const Changed& place : planted.changed) {
    const bool scalar = place.tensor.starts_with("g") && place.side == Side::stock;
    if (scalar || std::count(places.begin(), places.end(), place) > 0) continue;
    return Reason(fmt::format("{} does not speak of {}", text(one), text(place)));
  }
  return {};
}

}  // namespace

std::vector<Law> fault_laws() {
  using enum Dimension;
  return {
      {"Verify.a_fault_is_found_where_it_was_planted",
       Draw::planted,
       {tp, hidden_tiles, slice_tiles, experts_per_rank, plant},
       a_fault_is_found_where_it_was_planted},
      {"Verify.a_placement_is_named",
       Draw::misplaced,
       {tp, hidden_tiles, slice_tiles, placement},
       a_placement_is_named,
       nullptr,
       60},
  };
}

}  // namespace slicecheck::properties
