// The shapes of known models: E, H (the width that the experts see), I, and the routes of a token.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layout/shape.h"

namespace slicecheck::app {

struct Model {
  std::string_view name;
  std::int64_t experts = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t top_k = 0;
};

/// The model of that name, or nothing.
std::optional<Model> model_named(std::string_view name);

/// The names that --model takes.
std::vector<std::string> model_names();

}  // namespace slicecheck::app
