// A stream of the device with the memory that is allocated in its order: what a space works in.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace slicecheck::memory {

/// Ends the process with the call's text where it failed: after a failed call nothing on the device
/// can be believed.
void must_do(cudaError_t status, std::string_view call);

/// A stream, and a pool that keeps what was freed: an allocation is then no call of the driver, and
/// memory is given back in the order of the stream. Every buffer keeps it alive.
class Lane {
 public:
  explicit Lane(int device);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void here() const { must_do(cudaSetDevice(device_), "cudaSetDevice"); }
  cudaStream_t stream() const { return stream_; }

  void on_fault(std::function<void(const std::string&)> told) { told_ = std::move(told); }

  /// As the function of that name, after whoever wants to know of it was told.
  void must_do(cudaError_t status, std::string_view call) const;

  /// What this lane is given from now on begins when all that `other` was given so far has ended.
  void wait_for(Lane& other);

  /// Null when memory is out, also after what the pool kept has been given back.
  std::uint8_t* take(std::size_t bytes);
  void give(std::uint8_t* data);

  /// The most bytes that were taken at once since the last call.
  std::int64_t peak();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
  cudaEvent_t given_ = nullptr;
  std::function<void(const std::string&)> told_;
};

}  // namespace slicecheck::memory
