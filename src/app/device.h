// What the commands know of the device behind a group's memory, if there is one: its name, and time
// by its own clock.
#pragma once

#include <chrono>
#include <string>

#include "group/group.h"
#include "memory/cuda/device.h"

namespace slicecheck::app {

/// The device of the group's memory, or null for host memory.
memory::DeviceSpace* device_of(group::Group& group);

/// Its name and bus id; empty for host memory.
std::string device_text(group::Group& group);

/// Milliseconds of what a rank does between start and stop: by marks in the device's stream where
/// its memory is a device's, else by the clock of the host.
class Stopwatch {
 public:
  explicit Stopwatch(group::Group& group) : space_(group.space()), device_(device_of(group)) {}

  void start();
  double stop();

 private:
  memory::Space& space_;
  memory::DeviceSpace* device_;
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace slicecheck::app
