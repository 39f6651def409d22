#include "memory/cuda/device.h"

namespace slicecheck::memory {
namespace {

Reason no_cuda() { return Reason("this build has no device memory (CUDA)", "no-device"); }

}  // namespace

CudaVersions cuda_versions() { return {}; }

Result<std::vector<Device>> devices() { return no_cuda(); }

Result<std::unique_ptr<DeviceSpace>> device_space(int) { return no_cuda(); }

}  // namespace slicecheck::memory
