#include "app/device.h"

namespace slicecheck::app {

memory::DeviceSpace* device_of(group::Group& group) {
  return dynamic_cast<memory::DeviceSpace*>(&group.space());
}

std::string device_text(group::Group& group) {
  memory::DeviceSpace* const space = device_of(group);
  if (space == nullptr) return {};
  return space->device().name + " " + space->device().bus_id;
}

void Stopwatch::start() {
  space_.synchronise();
  if (device_ != nullptr) device_->mark(0);
  begun_ = std::chrono::steady_clock::now();
}

double Stopwatch::stop() {
  if (device_ != nullptr) device_->mark(1);
  space_.synchronise();
  if (device_ != nullptr) return device_->milliseconds(0, 1);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun_)
      .count();
}

}  // namespace slicecheck::app
