#include "memory/cuda/lane.h"

#include <fmt/format.h>

#include "base/must.h"

namespace slicecheck::memory {
namespace {

std::string fault(cudaError_t status, std::string_view call) {
  return fmt::format("{} failed on the device: {} ({})", call, cudaGetErrorString(status),
                     cudaGetErrorName(status));
}

}  // namespace

void must_do(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) bug(fault(status, call));
}

Lane::Lane(int device) : device_(device) {
  here();
  must_do(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  must_do(cudaEventCreateWithFlags(&given_, cudaEventDisableTiming), "cudaEventCreate");
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  must_do(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  std::uint64_t keep = ~std::uint64_t{0};
  must_do(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
          "cudaMemPoolSetAttribute");
}

Lane::~Lane() {
  cudaSetDevice(device_);
  cudaStreamSynchronize(stream_);
  cudaMemPoolDestroy(pool_);
  cudaEventDestroy(given_);
  cudaStreamDestroy(stream_);
}

void Lane::must_do(cudaError_t status, std::string_view call) const {
  if (status != cudaSuccess && told_) told_(fault(status, call));
  memory::must_do(status, call);
}

void Lane::wait_for(Lane& other) {
  here();
  must_do(cudaEventRecord(other.given_, other.stream_), "cudaEventRecord");
  must_do(cudaStreamWaitEvent(stream_, other.given_), "cudaStreamWaitEvent");
}

std::uint8_t* Lane::take(std::size_t bytes) {
  for (const bool last : {false, true}) {
    void* made = nullptr;
    const cudaError_t status = cudaMallocFromPoolAsync(&made, bytes, pool_, stream_);
    if (status == cudaSuccess) return static_cast<std::uint8_t*>(made);
    if (status != cudaErrorMemoryAllocation) must_do(status, "cudaMallocAsync");
    static_cast<void>(cudaGetLastError());  // the refusal is not an error of the next launch
    if (last) break;
    must_do(cudaStreamSynchronize(stream_), "the work of the stream");
    must_do(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
  }
  return nullptr;
}

void Lane::give(std::uint8_t* data) {
  cudaSetDevice(device_);
  cudaFreeAsync(data, stream_);
}

std::int64_t Lane::peak() {
  std::uint64_t bytes = 0;
  std::uint64_t none = 0;
  must_do(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &bytes),
          "cudaMemPoolGetAttribute");
  must_do(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &none),
          "cudaMemPoolSetAttribute");
  return static_cast<std::int64_t>(bytes);
}

}  // namespace slicecheck::memory
