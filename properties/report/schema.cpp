#include "properties/report/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/must.h"

namespace slicecheck::properties {
namespace {

using nlohmann::json;

/// A value of a report and where it stands.
struct Part {
  const json& value;
  std::string place;
};

bool is_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  must(type == "number", "a type that the schema's laws do not know");
  return value.is_number();
}

class Schema {
 public:
  explicit Schema(const json& root) : root_(root) {}

  Reason unfit(const json& schema, const Part& part) const {
    Reason reason;
    for (const auto& [keyword, value] : schema.items()) {
      if (!reason) reason = keyword_unfit(schema, keyword, value, part);
    }
    return reason;
  }

 private:
  static Reason no(const Part& part, const std::string& keyword) {
    return Reason(fmt::format("{} does not fit the schema's \"{}\"", part.place, keyword));
  }

  Reason keyword_unfit(const json& schema, const std::string& keyword, const json& value,
                       const Part& part) const {
    if (keyword == "$ref")
      return unfit(root_.at(json::json_pointer(value.get<std::string>().substr(1))), part);
    if (keyword == "allOf" || keyword == "oneOf") return many_unfit(keyword, value, part);
    if (keyword == "if") return unfit(value, part) ? Reason() : unfit(schema.at("then"), part);
    if (keyword == "properties" || keyword == "items" || keyword == "additionalProperties") {
      return children_unfit(schema, keyword, value, part);
    }
    const bool known =
        keyword == "$schema" || keyword == "title" || keyword == "then" || keyword == "$defs";
    return known || fits(keyword, value, part.value) ? Reason() : no(part, keyword);
  }

  Reason many_unfit(const std::string& keyword, const json& schemas, const Part& part) const {
    std::int64_t fitting = 0;
    Reason first;
    for (const json& each : schemas) {
      Reason reason = unfit(each, part);
      if (!reason) ++fitting;
      if (!first) first = reason;
    }
    if (keyword == "allOf") return first;
    return fitting == 1 ? Reason() : no(part, keyword);
  }

  Reason children_unfit(const json& schema, const std::string& keyword, const json& value,
                        const Part& part) const {
    const bool array = keyword == "items";
    if (array ? !part.value.is_array() : !part.value.is_object()) return {};
    Reason reason;
    for (const auto& [key, child] : part.value.items()) {
      const Part below{child, part.place + "/" + key};
      const bool named =
          !array && schema.contains("properties") && schema.at("properties").contains(key);
      if (reason) return reason;
      if (array) reason = unfit(value, below);
      if (keyword == "properties" && named) reason = unfit(value.at(key), below);
      if (keyword != "additionalProperties" || named) continue;
      if (!value.is_boolean()) reason = unfit(value, below);
      if (value == false) reason = no(below, keyword);
    }
    return reason;
  }

  // Keywords that look at one value alone; those of other types than the value's hold.
  static bool fits(const std::string& keyword, const json& value, const json& of) {
    if (keyword == "const") return of == value;
    if (keyword == "enum") return std::find(value.begin(), value.end(), of) != value.end();
    if (keyword == "type") {
      if (value.is_string()) return is_type(of, value.get<std::string>());
      return std::any_of(value.begin(), value.end(),
                         [&](const json& each) { return is_type(of, each.get<std::string>()); });
    }
    if (keyword == "required") {
      return !of.is_object() || std::all_of(value.begin(), value.end(), [&](const json& each) {
        return of.contains(each.get<std::string>());
      });
    }
    if (keyword == "minimum") return !of.is_number() || of >= value;
    if (keyword == "maximum") return !of.is_number() || of <= value;
    if (keyword == "minItems") return !of.is_array() || of.size() >= value.get<std::size_t>();
    if (keyword == "minLength") {
      return !of.is_string() || of.get<std::string>().size() >= value.get<std::size_t>();
    }
    must(keyword == "pattern", "a keyword that the schema's laws do not know");
    return !of.is_string() ||
           std::regex_search(of.get<std::string>(), std::regex(value.get<std::string>()));
  }

  const json& root_;
};

}  // namespace

Reason unfit(std::string_view text) {
  try {  // the one boundary to the JSON library
    static const json root = json::parse(report_schema());
    const json report = json::parse(text);
    return Schema(root).unfit(root, {report, ""});
  } catch (const nlohmann::json::exception& why) {
    return Reason(why.what());
  }
}

}  // namespace slicecheck::properties
