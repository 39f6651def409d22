#include "checkpoint/config_fields.h"

#include <fmt/format.h>

#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::size_t patterns_max = 1000;
constexpr std::uint64_t number_max = 1'000'000;

// What no reader of regular expressions takes: a bracket without its other, an escape of nothing, a
// repeat of nothing. More than that is left to Pattern, which knows a subset.
bool broken(std::string_view expression) {
  std::int64_t open = 0;
  bool repeatable = false;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    const char c = expression[at];
    if (!repeatable && (c == '*' || c == '+' || c == '?')) return true;
    repeatable = c != '(' && c != '|';
    if (c == '\\' && ++at == expression.size()) return true;
    if (c == ')' && --open < 0) return true;
    if (c == '(') {
      ++open;
      if (expression.substr(at + 1).starts_with('?')) ++at;
    }
    if (c != '[') continue;
    ++at;
    if (expression.substr(at).starts_with('^')) ++at;
    // A bracket that closes stands for itself at a class's begin.
    for (bool first = true; at < expression.size() && (first || expression[at] != ']'); ++at) {
      if (expression[at] == '\\') ++at;
      first = false;
    }
    if (at >= expression.size()) return true;
  }
  return open != 0;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return made;
}

std::string upper(std::string_view text) {
  std::string made(text);
  for (char& c : made) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return made;
}

Result<std::string> text_in(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  if (value == nullptr || value->null()) return std::string();
  if (value->text() == nullptr) return Reason(fmt::format("{}: is not a string", name));
  return *value->text();
}

Result<std::vector<std::string>> texts_in(const JsonValue& object, std::string_view name) {
  std::vector<std::string> made;
  const JsonValue* value = object.find(name);
  if (value == nullptr || value->null()) return made;
  if (value->array() == nullptr) return Reason(fmt::format("{}: is not an array", name));
  std::size_t patterns = 0;
  for (const JsonValue& entry : *value->array()) {
    if (entry.text() == nullptr) {
      return Reason(fmt::format("{}: entry {} is not a string", name, made.size()));
    }
    made.push_back(*entry.text());
    const std::string_view text = made.back();
    if (text.starts_with(expression_mark) && broken(text.substr(expression_mark.size()))) {
      return Reason(
          fmt::format("{}: {} is not a regular expression", name, in_quotes(made.back())));
    }
    if (made.back().find_first_of(":*?[") != std::string::npos) ++patterns;
  }
  if (patterns > patterns_max) {
    return Reason(
        fmt::format("{}: has {} patterns, expected at most {}", name, patterns, patterns_max));
  }
  return made;
}

Result<std::optional<std::int64_t>> integer_in(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  if (value == nullptr || value->null()) return std::optional<std::int64_t>();
  const JsonLeaf* leaf = std::get_if<JsonLeaf>(&value->value);
  if (const auto* below = leaf == nullptr ? nullptr : std::get_if<std::int64_t>(leaf)) {
    return std::optional<std::int64_t>(*below);
  }
  if (value->whole() == nullptr || *value->whole() > number_max) {
    return Reason(fmt::format("{}: is not a whole number up to {}", name, number_max));
  }
  return std::optional<std::int64_t>(static_cast<std::int64_t>(*value->whole()));
}

Result<std::optional<std::int64_t>> number_in(const JsonValue& object, std::string_view name) {
  Result<std::optional<std::int64_t>> made = integer_in(object, name);
  if (made.reason || !*made || **made >= 0) return made;
  return Reason(fmt::format("{}: is not a whole number up to {}", name, number_max));
}

}  // namespace slicecheck::checkpoint
