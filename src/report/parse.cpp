#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/printable.h"
#include "report/report.h"

namespace slicecheck::report {
namespace {

using Json = nlohmann::ordered_json;

// Members are read by at(): what is missing or of another type is an exception of the JSON library,
// caught at parsed(), the one boundary. So is what the schema does not allow here: to ask a value
// for what its type has not is the library's own way to say so, and it knows the place.
constexpr int not_this_reference = 303;
constexpr int not_this_type = 304;

const Json& refused(const Json& value) { return value.is_array() ? value.at("") : value.at(0); }

double real(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string& text = value.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return infinity;
  if (text != "-inf") refused(value);
  return -infinity;
}

template <typename Integer>
Integer whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<Integer>(number)) return static_cast<Integer>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::in_range<Integer>(number)) return static_cast<Integer>(number);
  }
  return static_cast<Integer>(refused(value).size());
}

template <typename Integer>
Integer whole(const Json& object, const char* key) {
  return whole<Integer>(object.at(key));
}

template <typename Integer>
Integer natural(const Json& value) {
  const auto number = whole<Integer>(value);
  return number >= 0 ? number : static_cast<Integer>(refused(value).size());
}

template <typename Integer>
Integer natural(const Json& object, const char* key) {
  return natural<Integer>(object.at(key));
}

// A member that the schema does not have here may say anything.
void only(const Json& object, std::initializer_list<std::string_view> keys) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) refused(value);
  }
}

// A text of these characters, and of one at least.
std::string word_of(const Json& value, std::string_view characters) {
  const std::string& text = value.get_ref<const std::string&>();
  const bool fits = !text.empty() && text.find_first_not_of(characters) == std::string::npos;
  return fits ? text : refused(value).dump();
}

constexpr std::string_view cause_characters = "abcdefghijklmnopqrstuvwxyz0123456789-";
constexpr std::string_view id_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.-";

const Json::object_t& object_of(const Json& value) {
  return value.get_ref<const Json::object_t&>();
}
const Json::array_t& array_of(const Json& value) { return value.get_ref<const Json::array_t&>(); }

std::vector<std::string> texts(const Json& value) {
  return array_of(value).empty() ? std::vector<std::string>()
                                 : value.get<std::vector<std::string>>();
}

template <typename Integer>
std::vector<Integer> wholes(const Json& value) {
  std::vector<Integer> made;
  for (const Json& one : array_of(value)) made.push_back(natural<Integer>(one));
  return made;
}

Value value_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) {
    const std::uint64_t number = value.get<std::uint64_t>();
    if (number > std::numeric_limits<std::int64_t>::max()) return number;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? value.get<std::string>() : refused(value).dump();
}

Fields fields_of(const Json& object) {
  Fields made;
  for (const auto& [key, value] : object_of(object)) made.emplace_back(key, value_of(value));
  return made;
}

template <typename Enum>
Enum word(const Json& object, const char* key, int count) {
  const Json& value = object.at(key);
  const std::string& text = value.get_ref<const std::string&>();
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return static_cast<Enum>(refused(value).size());
}

Severity severity_of(const Json& value) {
  if (value == "warning") return Severity::warning;
  if (value != "error") refused(value);
  return Severity::error;
}

Check check_of(const Json& from) {
  Check made{word_of(from.at("id"), id_characters),
             natural<int>(from, "group"),
             natural<std::int64_t>(from, "layer"),
             word<Status>(from, "status", 5),
             natural<std::int64_t>(from, "compared"),
             natural<std::int64_t>(from, "differing"),
             from.at("text"),
             fields_of(from.at("figures"))};
  only(from, {"id", "group", "layer", "status", "compared", "differing", "text", "figures"});
  return made;
}

Logical logical_of(const Json& from) {
  Logical made{from.at("projection"),
               natural<std::int64_t>(from, "expert"),
               natural<std::int64_t>(from, "row"),
               natural<std::int64_t>(from, "column"),
               {}};
  if (from.contains("seed")) made.seed = whole<std::uint64_t>(from, "seed");
  only(from, {"projection", "expert", "row", "column", "seed"});
  return made;
}

First first_of(const Json& from) {
  only(from,
       {"rank", "tensor", "expert", "row", "byte", "offset", "want", "got", "logical", "origin"});
  First made{natural<int>(from, "rank"),
             from.at("tensor"),
             natural<std::int64_t>(from, "expert"),
             natural<std::int64_t>(from, "row"),
             natural<std::int64_t>(from, "byte"),
             natural<std::int64_t>(from, "offset"),
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
  made.cause = word_of(from.at("cause"), cause_characters);
  made.severity = severity_of(from.at("severity"));
  made.side = word<Side>(from, "side", 5);
  made.text = from.at("text");
  made.tensors = texts(from.at("tensors"));
  made.ranks = wholes<int>(from.at("ranks"));
  made.experts = wholes<std::int64_t>(from.at("experts"));
  made.layer = natural<std::int64_t>(from, "layer");
  made.group = natural<int>(from, "group");
  made.explained = real(from.at("explained"));
  made.also_possible = texts(from.at("also_possible"));
  if (from.contains("first")) made.first = first_of(from.at("first"));
  only(from, {"cause", "severity", "side", "text", "tensors", "ranks", "experts", "layer", "group",
              "explained", "also_possible", "first"});
  return made;
}

Probe probe_of(const Json& from) {
  Probe made{from.at("kind"),
             natural<int>(from, "group"),
             real(from.at("rel_l2")),
             real(from.at("floor")),
             real(from.at("bound")),
             std::nullopt,
             std::nullopt};
  if (const Json& route = from.at("worst_route"); !object_of(route).empty()) {
    made.worst_route = {natural<std::int64_t>(route, "token"), natural<std::int64_t>(route, "k"),
                        whole<std::int64_t>(route, "expert"), real(route.at("rel_l2"))};
  }
  if (const Json& expert = from.at("worst_expert"); !object_of(expert).empty()) {
    made.worst_expert = {natural<std::int64_t>(expert, "expert"), real(expert.at("rel_l2")),
                         real(expert.at("bound"))};
  }
  only(from, {"kind", "group", "rel_l2", "floor", "bound", "worst_route", "worst_expert"});
  return made;
}

RankEntry rank_of(const Json& from) {
  RankEntry made{natural<int>(from, "rank"),
                 natural<int>(from, "group"),
                 from.at("host"),
                 from.at("device"),
                 natural<std::int64_t>(from, "first_expert"),
                 {}};
  for (const auto& [key, value] : object_of(from)) {
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
  for (const Json& timing : array_of(from.at("timings"))) {
    made.timings.emplace_back(timing.at("phase"), real(timing.at("seconds")));
  }
  only(from, {"versions", "seconds", "timings", "environment"});
  return made;
}

Report report_of(const Json& from) {
  Report made;
  made.command = from.at("command");
  made.verdict = word<Verdict>(from, "verdict", 8);
  made.run_case = fields_of(from.at("case"));
  for (const Json& check : array_of(from.at("checks"))) made.checks.push_back(check_of(check));
  for (const Json& finding : array_of(from.at("findings")))
    made.findings.push_back(finding_of(finding));
  for (const Json& probe : array_of(from.at("probes"))) made.probes.push_back(probe_of(probe));
  for (const Json& rank : array_of(from.at("ranks"))) made.ranks.push_back(rank_of(rank));
  made.run = run_of(from.at("run"));
  only(from, {"schema", "command", "verdict", "exit_code", "case", "checks", "findings", "probes",
              "ranks", "run"});
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

// Unique keys, as in every file that is read here: the library keeps the last of two.
class UniqueKeys {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) keys_.resize(static_cast<std::size_t>(depth) + 1);
    if (event == Event::object_start) keys_.back().clear();
    if (event == Event::key) keys_.resize(static_cast<std::size_t>(depth));
    if (event == Event::key && !keys_.back().insert(value.get<std::string>()).second) {
      twice_ = value.get<std::string>();
    }
    return true;
  }
  const std::optional<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::optional<std::string> twice_;
};

// One line that can be printed, whatever the text holds.
std::string shown(std::string_view text) {
  constexpr std::size_t shown_max = 200;
  return printable(text.substr(0, shown_max));
}

// "[json.exception.NAME.ID] (PLACE) WHY", as the library words it, is "PLACE: WHY".
std::string placed(const Json::exception& error) {
  std::string_view text = error.what();
  text.remove_prefix(std::min(text.size(), text.find("] ") + 2));
  const std::size_t end = text.find(") ");
  const bool has_place = text.starts_with("(/") && end != std::string_view::npos;
  const std::string_view place = has_place ? text.substr(1, end - 1) : "/";
  if (error.id == not_this_type || error.id == not_this_reference) {
    return shown(place) + ": is not what the schema has here";
  }
  return shown(place) + ": " + shown(has_place ? text.substr(end + 2) : text);
}

}  // namespace

Result<Report> parsed(std::string_view text) {
  if (too_deep(text)) return Reason(fmt::format("nested deeper than {}", depth_max));
  try {
    UniqueKeys unique;
    const Json from = Json::parse(text, std::ref(unique));
    if (unique.twice()) {
      return Reason(fmt::format("key '{}' stands twice in one object", printable(*unique.twice())));
    }
    if (!from.is_object() || !from.contains("schema") ||
        from.at("schema") != "slicecheck-report/1") {
      return Reason("schema: is not slicecheck-report/1");
    }
    Report made = report_of(from);
    if (from.at("exit_code") != exit_code(made.verdict)) {
      return Reason(fmt::format("exit_code: is {}, not that of verdict {}",
                                printable(from.at("exit_code").dump()), name(made.verdict)));
    }
    return made;
  } catch (const Json::parse_error& error) {
    return Reason(fmt::format("not JSON at byte {}", error.byte));
  } catch (const Json::exception& error) {
    return Reason(placed(error));
  }
}

}  // namespace slicecheck::report
