#include "engine/engine.h"

#include <array>

#include "reshard/reshard.h"

namespace slicecheck::engine {

experts::TpExperts collective(const EngineInput& input, group::Group& group) {
  return reshard::reshard_nvfp4(input.stock, group, input.experts);
}

experts::TpExperts streamed(const EngineInput& input, group::Group& group) {
  return reshard::streamed_nvfp4(input.stock, group, input.experts);
}

std::optional<Engine> built_in(std::string_view name) {
  const std::array<Engine, 3> engines{
      {{"reference", reference}, {"collective", collective}, {"streamed", streamed}}};
  for (const Engine& engine : engines) {
    if (engine.name == name) return engine;
  }
  return {};
}

}  // namespace slicecheck::engine
