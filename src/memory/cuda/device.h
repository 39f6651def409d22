// The devices of this machine, and one of them as a space. Built without CUDA, the same functions
// say so: whoever calls them needs no #if.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "memory/space.h"

namespace slicecheck::memory {

/// A device as the driver lists it. `bus_id` and `uuid` name it across processes.
struct Device {
  int index = 0;
  std::string name;
  std::string bus_id;
  std::string uuid;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
};

/// Version of the CUDA driver and of the runtime this was built with: 13000 is 13.0; 0 is none.
struct CudaVersions {
  int driver = 0;
  int runtime = 0;
};
CudaVersions cuda_versions();

/// Every device, or why there is none (cause no-device).
Result<std::vector<Device>> devices();

/// Device memory, and the stream on which its operations are ordered: a cudaStream_t.
class DeviceSpace : public Space {
 public:
  virtual const Device& device() const = 0;
  virtual void* stream() = 0;

  /// The most bytes that were allocated at once since the last call.
  virtual std::int64_t peak_bytes() = 0;

  /// `watcher` is called again and again while this space waits for its stream, with how long it
  /// has: it may throw, which is how a wait for a rank that is gone ends. Empty: nobody watches.
  virtual void watch(std::function<void(std::chrono::milliseconds)> watcher) = 0;

  /// `told` is called with the text of a call of CUDA that failed, a kernel's fault among them,
  /// before the process ends for it: it may throw, where a group has its own way to end.
  virtual void on_fault(std::function<void(const std::string&)> told) = 0;

  /// Milliseconds of the last comparison's kernel, without the transfer of what it found.
  virtual double comparison_milliseconds() = 0;

  /// Milliseconds on the device between two of 8 marks in the stream.
  virtual void mark(int which) = 0;
  virtual double milliseconds(int from, int to) = 0;
};

/// The device's memory. A call of CUDA that fails ends the process with its text, unless on_fault()
/// ends it otherwise: after it, nothing on the device can be believed. Refuses when there is no
/// such device (cause no-device).
Result<std::unique_ptr<DeviceSpace>> device_space(int index);

}  // namespace slicecheck::memory
