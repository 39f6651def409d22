// Random healthy layouts, of every payload and checkpoint format, judged as everything else is: a
// finding on one of them is a false alarm.
#pragma once

#include <cstdint>

namespace slicecheck::app {

/// Layout `number` of the run with this seed. They take turns: payloads `bytes`, `numeric` and
/// `exact`, with and without padding, by their rule and by their stocks alone; checkpoints of the
/// three formats, written to a folder, audited, and read back as the reference.
struct HealthyLayout {
  std::uint64_t seed = 1;
  std::int64_t number = 0;
};

/// True where something was said of it.
bool alarmed(const HealthyLayout& layout);

}  // namespace slicecheck::app
