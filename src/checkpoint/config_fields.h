// Fields of a config's objects, each of the type that it must have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/reason.h"
#include "checkpoint/json.h"

namespace slicecheck::checkpoint {

/// What a regular expression of a list begins with.
inline constexpr std::string_view expression_mark = "re:";

/// ASCII letters in one case; others are left as they are.
std::string lower(std::string_view text);
std::string upper(std::string_view text);

/// The text under `name`; empty where there is none.
Result<std::string> text_in(const JsonValue& object, std::string_view name);

/// The names and patterns under `name`.
/// Refuses when: it is no array of strings, holds too many patterns, or one that no reader takes.
Result<std::vector<std::string>> texts_in(const JsonValue& object, std::string_view name);

/// The whole number under `name`, up to a million; nothing where there is none.
Result<std::optional<std::int64_t>> integer_in(const JsonValue& object, std::string_view name);

/// The same, from 0 on.
Result<std::optional<std::int64_t>> number_in(const JsonValue& object, std::string_view name);

}  // namespace slicecheck::checkpoint
