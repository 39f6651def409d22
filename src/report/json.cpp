#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace slicecheck::report {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity: they stand as text.
Json number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

Json open_object(const Fields& fields) {
  Json made = Json::object();
  for (const auto& [key, value] : fields) {
    if (const double* real = std::get_if<double>(&value)) {
      made[key] = number(*real);
    } else {
      std::visit([&, &name = key](const auto& held) { made[name] = held; }, value);
    }
  }
  return made;
}

Json json_of(const Check& check) {
  return {{"id", check.id},
          {"group", check.group},
          {"layer", check.layer},
          {"status", name(check.status)},
          {"compared", check.compared},
          {"differing", check.differing},
          {"text", check.text},
          {"figures", open_object(check.figures)}};
}

Json json_of(const Logical& logical) {
  Json made = {{"projection", logical.projection},
               {"expert", logical.expert},
               {"row", logical.row},
               {"column", logical.column}};
  if (logical.seed) made["seed"] = *logical.seed;
  return made;
}

Json json_of(const First& first) {
  Json made = {{"rank", first.rank}, {"tensor", first.tensor}, {"expert", first.expert},
               {"row", first.row},   {"byte", first.byte},     {"offset", first.offset},
               {"want", first.want}, {"got", first.got}};
  if (first.logical) made["logical"] = json_of(*first.logical);
  if (first.ambiguous) {
    made["origin"] = "ambiguous";
  } else if (first.origin) {
    made["origin"] = json_of(*first.origin);
  }
  return made;
}

Json json_of(const Finding& finding) {
  Json made = {{"cause", finding.cause},
               {"severity", finding.severity == Severity::error ? "error" : "warning"},
               {"side", name(finding.side)},
               {"text", finding.text},
               {"tensors", finding.tensors},
               {"ranks", finding.ranks},
               {"experts", finding.experts},
               {"layer", finding.layer},
               {"group", finding.group},
               {"explained", number(finding.explained)},
               {"also_possible", finding.also_possible}};
  if (finding.first) made["first"] = json_of(*finding.first);
  return made;
}

Json json_of(const Probe& probe) {
  Json made = {{"kind", probe.kind},
               {"group", probe.group},
               {"rel_l2", number(probe.rel_l2)},
               {"floor", number(probe.floor)},
               {"bound", number(probe.bound)},
               {"worst_route", Json::object()},
               {"worst_expert", Json::object()}};
  if (probe.worst_route) {
    made["worst_route"] = {{"token", probe.worst_route->token},
                           {"k", probe.worst_route->k},
                           {"expert", probe.worst_route->expert},
                           {"rel_l2", number(probe.worst_route->rel_l2)}};
  }
  if (probe.worst_expert) {
    made["worst_expert"] = {{"expert", probe.worst_expert->expert},
                            {"rel_l2", number(probe.worst_expert->rel_l2)},
                            {"bound", number(probe.worst_expert->bound)}};
  }
  return made;
}

Json json_of(const RankEntry& rank) {
  Json made = {{"rank", rank.rank},
               {"group", rank.group},
               {"host", rank.host},
               {"device", rank.device},
               {"first_expert", rank.first_expert}};
  made.update(open_object(rank.more));
  return made;
}

Json json_of(const Run& run) {
  Json timings = Json::array();
  for (const auto& [phase, seconds] : run.timings) {
    timings.push_back({{"phase", phase}, {"seconds", number(seconds)}});
  }
  return {{"versions", open_object(run.versions)},
          {"seconds", number(run.seconds)},
          {"timings", std::move(timings)},
          {"environment", open_object(run.environment)}};
}

template <typename T>
Json array_of(const std::vector<T>& items) {
  Json made = Json::array();
  for (const T& item : items) made.push_back(json_of(item));
  return made;
}

}  // namespace

std::string json(const Report& report) {
  const Json made = {
      {"schema", "slicecheck-report/1"},       {"command", report.command},
      {"verdict", name(report.verdict)},       {"exit_code", exit_code(report.verdict)},
      {"case", open_object(report.run_case)},  {"checks", array_of(report.checks)},
      {"findings", array_of(report.findings)}, {"probes", array_of(report.probes)},
      {"ranks", array_of(report.ranks)},       {"run", json_of(report.run)}};
  // Names that come from files may not be UTF-8: what is not is replaced, never an exception.
  return made.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace slicecheck::report
