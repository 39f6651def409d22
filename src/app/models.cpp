#include "app/models.h"

#include <array>

namespace slicecheck::app {
namespace {

constexpr std::array<Model, 13> models{{
    {"deepseek-v3", 256, 7168, 2048, 8},
    {"kimi-k2", 384, 7168, 2048, 8},
    {"qwen3-235b", 128, 4096, 1536, 8},
    {"qwen3-30b", 128, 2048, 768, 8},
    {"qwen3-coder-480b", 160, 6144, 2560, 8},
    {"qwen3-next-80b", 512, 2048, 512, 10},
    {"qwen3.5-397b", 512, 4096, 1024, 10},
    {"llama4-maverick", 128, 5120, 8192, 1},
    {"glm-4.5", 160, 5120, 1536, 8},
    {"glm-5", 256, 6144, 2048, 8},
    {"minimax-m2", 256, 3072, 1536, 8},
    {"mistral-large-3", 128, 7168, 4096, 4},
    {"muse-spark", 256, 4096, 4096, 8},
}};

}  // namespace

std::optional<Model> model_named(std::string_view name) {
  for (const Model& model : models) {
    if (model.name == name) return model;
  }
  return {};
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Model& model : models) names.emplace_back(model.name);
  return names;
}

}  // namespace slicecheck::app
