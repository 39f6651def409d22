#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "report/report.h"

namespace slicecheck::report {
namespace {

using Json = nlohmann::ordered_json;

// Members are read by at(): what is missing or of another type is an exception of the JSON library,
// caught at parsed(), the one boundary.

double real(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string& text = value.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "-inf" ? -infinity : infinity;
}

Value value_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) {
    const std::uint64_t number = value.get<std::uint64_t>();
    if (number > std::numeric_limits<std::int64_t>::max()) return number;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Fields fields_of(const Json& object) {
  Fields made;
  for (const auto& [key, value] : object.items()) made.emplace_back(key, value_of(value));
  return made;
}

template <typename Enum>
Enum named(std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  // at() of an empty object is the library's own way to say that a value is not one of the list.
  return static_cast<Enum>(Json::object().at(fmt::format("\"{}\" is no such word", text)).size());
}

template <typename Enum>
Enum word(const Json& object, const char* key, int count) {
  return named<Enum>(object.at(key).get_ref<const std::string&>(), count);
}

Check check_of(const Json& from) {
  return {
      from.at("id"),       from.at("group"),     from.at("layer"), word<Status>(from, "status", 5),
      from.at("compared"), from.at("differing"), from.at("text"),  fields_of(from.at("figures"))};
}

Logical logical_of(const Json& from) {
  Logical made{from.at("projection"), from.at("expert"), from.at("row"), from.at("column"), {}};
  if (from.contains("seed")) made.seed = from.at("seed").get<std::uint64_t>();
  return made;
}

First first_of(const Json& from) {
  First made{from.at("rank"),
             from.at("tensor"),
             from.at("expert"),
             from.at("row"),
             from.at("byte"),
             from.at("offset"),
             from.at("want"),
             from.at("got"),
             std::nullopt,
             std::nullopt,
             false};
  if (from.contains("logical")) made.logical = logical_of(from.at("logical"));
  if (from.contains("origin")) {
    made.ambiguous = from.at("origin") == "ambiguous";
    if (!made.ambiguous) made.origin = logical_of(from.at("origin"));
  }
  return made;
}

Finding finding_of(const Json& from) {
  Finding made;
  made.cause = from.at("cause");
  made.severity = from.at("severity") == "warning" ? Severity::warning : Severity::error;
  made.side = word<Side>(from, "side", 5);
  made.text = from.at("text");
  made.tensors = from.at("tensors").get<std::vector<std::string>>();
  made.ranks = from.at("ranks").get<std::vector<int>>();
  made.experts = from.at("experts").get<std::vector<std::int64_t>>();
  made.layer = from.at("layer");
  made.group = from.at("group");
  made.explained = real(from.at("explained"));
  made.also_possible = from.at("also_possible").get<std::vector<std::string>>();
  if (from.contains("first")) made.first = first_of(from.at("first"));
  return made;
}

Probe probe_of(const Json& from) {
  Probe made{from.at("kind"),
             from.at("group"),
             real(from.at("rel_l2")),
             real(from.at("floor")),
             real(from.at("bound")),
             std::nullopt,
             std::nullopt};
  if (const Json& route = from.at("worst_route"); !route.empty()) {
    made.worst_route = {route.at("token"), route.at("k"), route.at("expert"),
                        real(route.at("rel_l2"))};
  }
  if (const Json& expert = from.at("worst_expert"); !expert.empty()) {
    made.worst_expert = {expert.at("expert"), real(expert.at("rel_l2")), real(expert.at("bound"))};
  }
  return made;
}

RankEntry rank_of(const Json& from) {
  RankEntry made{from.at("rank"),   from.at("group"),        from.at("host"),
                 from.at("device"), from.at("first_expert"), {}};
  for (const auto& [key, value] : from.items()) {
    const bool fixed = key == "rank" || key == "group" || key == "host" || key == "device" ||
                       key == "first_expert";
    if (!fixed) made.more.emplace_back(key, value_of(value));
  }
  return made;
}

Run run_of(const Json& from) {
  Run made{fields_of(from.at("versions")),
           real(from.at("seconds")),
           {},
           fields_of(from.at("environment"))};
  for (const Json& timing : from.at("timings")) {
    made.timings.emplace_back(timing.at("phase"), real(timing.at("seconds")));
  }
  return made;
}

Report report_of(const Json& from) {
  Report made;
  made.command = from.at("command");
  made.verdict = word<Verdict>(from, "verdict", 8);
  made.run_case = fields_of(from.at("case"));
  for (const Json& check : from.at("checks")) made.checks.push_back(check_of(check));
  for (const Json& finding : from.at("findings")) made.findings.push_back(finding_of(finding));
  for (const Json& probe : from.at("probes")) made.probes.push_back(probe_of(probe));
  for (const Json& rank : from.at("ranks")) made.ranks.push_back(rank_of(rank));
  made.run = run_of(from.at("run"));
  return made;
}

constexpr int depth_max = 32;

// Nesting is bounded before the recursive parts of the library see it.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = false;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '{' || text[i] == '[') {
      if (++depth > depth_max) return true;
    } else if (text[i] == '}' || text[i] == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Report> parsed(std::string_view text) {
  if (too_deep(text)) return Reason(fmt::format("nested deeper than {}", depth_max));
  try {
    const Json from = Json::parse(text);
    if (!from.is_object() || from.value("schema", "") != "slicecheck-report/1") {
      return Reason("schema is not slicecheck-report/1");
    }
    Report made = report_of(from);
    if (from.at("exit_code") != exit_code(made.verdict)) {
      return Reason(fmt::format("exit_code {} is not that of verdict {}",
                                from.at("exit_code").dump(), name(made.verdict)));
    }
    return made;
  } catch (const nlohmann::json::exception& error) {
    return Reason(error.what());
  }
}

}  // namespace slicecheck::report
