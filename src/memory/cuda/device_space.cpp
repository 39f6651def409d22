#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/must.h"
#include "memory/cuda/device.h"
#include "memory/cuda/kernels.h"

namespace slicecheck::memory {
namespace {

// After a failed call nothing on the device can be believed, so the process ends.
void must_do(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  bug(fmt::format("{} failed on the device: {} ({})", call, cudaGetErrorString(status),
                  cudaGetErrorName(status)));
}

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  must_do(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

Reason no_device(std::string text) { return Reason(std::move(text), "no-device"); }

Device described(int index) {
  cudaDeviceProp properties{};
  must_do(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  Device device;
  device.index = index;
  device.name = properties.name;
  std::array<char, 32> bus{};
  must_do(cudaDeviceGetPCIBusId(bus.data(), bus.size(), index), "cudaDeviceGetPCIBusId");
  device.bus_id = bus.data();
  device.uuid = uuid_text(properties.uuid);
  device.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  return device;
}

class CudaSpace final : public DeviceSpace {
 public:
  explicit CudaSpace(Device device) : device_(std::move(device)) {
    here();
    must_do(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& event : marks_) must_do(cudaEventCreate(&event), "cudaEventCreate");
    device_.free_bytes = memory::free_bytes();
  }

  ~CudaSpace() override {
    cudaSetDevice(device_.index);
    cudaFree(scratch_);
    for (cudaEvent_t event : marks_) cudaEventDestroy(event);
    cudaStreamDestroy(stream_);
  }

  std::string_view name() const override { return "cuda"; }
  const Device& device() const override { return device_; }
  void* stream() override { return stream_; }

  void mark(int which) override {
    here();
    must_do(cudaEventRecord(marks_.at(which), stream_), "cudaEventRecord");
  }

  double milliseconds(int from, int to) override {
    float between = 0;
    must_do(cudaEventSynchronize(marks_.at(to)), "cudaEventSynchronize");
    must_do(cudaEventElapsedTime(&between, marks_.at(from), marks_.at(to)), "cudaEventElapsedTime");
    return between;
  }

  Result<std::shared_ptr<std::uint8_t>> allocate(std::int64_t bytes,
                                                 std::string_view purpose) override {
    here();
    void* made = nullptr;
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256));
    const cudaError_t status = cudaMalloc(&made, size);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());  // the refusal is not an error of the next launch
      return Reason(fmt::format("device memory is out: {} wants {} bytes, {} bytes are free",
                                purpose, bytes, memory::free_bytes()),
                    "out-of-memory");
    }
    must_do(status, "cudaMalloc");
    return std::shared_ptr<std::uint8_t>(static_cast<std::uint8_t*>(made),
                                         [index = device_.index](std::uint8_t* data) {
                                           cudaSetDevice(index);
                                           cudaFree(data);
                                         });
  }

  void upload(std::uint8_t* to, Bytes from) override {
    here();
    must_do(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
            "a copy to the device");
    synchronise();
  }

  void download(MutableBytes to, const std::uint8_t* from) override {
    here();
    must_do(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
            "a copy from the device");
    synchronise();
  }

  void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) override {
    here();
    must_do(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                            stream_),
            "a copy on the device");
  }

  void fill(std::uint8_t* to, std::uint8_t value, std::int64_t bytes) override {
    here();
    must_do(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), stream_),
            "cudaMemsetAsync");
  }

  void fill_plain(std::uint8_t* to, const PayloadPlain& plain) override {
    here();
    kernels::fill_plain(to, plain, stream_);
    launched("fill_plain");
  }

  void fill_payload(std::uint8_t* to, const PayloadTensor& tensor) override {
    here();
    kernels::fill_payload(to, tensor, stream_);
    launched("fill_payload");
  }

  void convert(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
               const PlainSource& from, std::int64_t experts) override {
    here();
    if (layout::is_scale(kind)) {
      kernels::convert_scales(to, kind, widths, from, experts, stream_);
    } else {
      kernels::convert_weights(to, kind, widths, from, experts, stream_);
    }
    launched("convert");
  }

  void pack(std::uint8_t* to, const std::uint8_t* stock, layout::Kind kind,
            const layout::Shape& shape) override {
    here();
    kernels::pack(to, stock, layout::cut(kind, shape), shape, stream_);
    launched("pack");
  }

  Difference compare(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) override {
    here();
    kernels::Found* found = cleared(1);
    kernels::compare(found, a, b, bytes, stream_);
    launched("compare");
    return differences(1).front();
  }

  std::vector<Difference> compare_payload(const std::uint8_t* got,
                                          const PayloadTensor& tensor) override {
    here();
    kernels::Found* found = cleared(tensor.experts);
    kernels::compare_payload(found, got, tensor, stream_);
    launched("compare_payload");
    return differences(tensor.experts);
  }

  Digest digest(const std::uint8_t* from, std::int64_t bytes) override {
    here();
    auto* const sums = reinterpret_cast<unsigned long long*>(scratch(sizeof(Digest)));
    must_do(cudaMemsetAsync(sums, 0, sizeof(Digest), stream_), "cudaMemsetAsync");
    kernels::digest(sums, from, bytes, stream_);
    launched("digest");
    std::array<std::uint64_t, 2> words{};
    download({reinterpret_cast<std::uint8_t*>(words.data()), sizeof words}, scratch_);
    Digest made;
    store(made.bytes.data(), layout::mix64(words[0] + static_cast<std::uint64_t>(bytes)));
    store(made.bytes.data() + 8, layout::mix64(words[1] ^ words[0]));
    return made;
  }

  void synchronise() override {
    here();
    must_do(cudaStreamSynchronize(stream_), "the work of the stream");
  }

 private:
  void here() const { must_do(cudaSetDevice(device_.index), "cudaSetDevice"); }

  static void launched(std::string_view kernel) { must_do(cudaGetLastError(), kernel); }

  std::uint8_t* scratch(std::int64_t bytes) {
    if (bytes <= scratch_bytes_) return scratch_;
    must_do(cudaFree(scratch_), "cudaFree");
    void* made = nullptr;
    must_do(cudaMalloc(&made, static_cast<std::size_t>(bytes)), "cudaMalloc of the counters");
    scratch_ = static_cast<std::uint8_t*>(made);
    scratch_bytes_ = bytes;
    return scratch_;
  }

  kernels::Found* cleared(std::int64_t count) {
    const std::vector<kernels::Found> nothing(static_cast<std::size_t>(count), {0, ~0ULL});
    const auto bytes = count * static_cast<std::int64_t>(sizeof(kernels::Found));
    auto* const found = reinterpret_cast<kernels::Found*>(scratch(bytes));
    upload(scratch_, {reinterpret_cast<const std::uint8_t*>(nothing.data()),
                      static_cast<std::size_t>(bytes)});
    return found;
  }

  std::vector<Difference> differences(std::int64_t count) {
    std::vector<kernels::Found> found(static_cast<std::size_t>(count));
    download({reinterpret_cast<std::uint8_t*>(found.data()), count * sizeof(kernels::Found)},
             scratch_);
    std::vector<Difference> made;
    for (const kernels::Found& of : found) {
      made.push_back({static_cast<std::int64_t>(of.differing),
                      of.differing == 0 ? -1 : static_cast<std::int64_t>(of.first)});
    }
    return made;
  }

  Device device_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, 8> marks_{};
  std::uint8_t* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace

CudaVersions cuda_versions() {
  CudaVersions versions{0, CUDART_VERSION};
  if (cudaDriverGetVersion(&versions.driver) != cudaSuccess) versions.driver = 0;
  return versions;
}

Result<std::vector<Device>> devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return no_device(fmt::format("no CUDA device can be used: {}", cudaGetErrorString(status)));
  }
  if (count == 0) return no_device("this machine has no CUDA device");
  std::vector<Device> all;
  for (int index = 0; index < count; ++index) {
    all.push_back(described(index));
    must_do(cudaSetDevice(index), "cudaSetDevice");
    all.back().free_bytes = free_bytes();
  }
  return all;
}

Result<std::unique_ptr<DeviceSpace>> device_space(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return no_device(fmt::format("no CUDA device can be used: {}", cudaGetErrorString(status)));
  }
  if (index < 0 || index >= count) {
    return no_device(fmt::format("device {} was asked for, this machine has {}", index, count));
  }
  return std::unique_ptr<DeviceSpace>(std::make_unique<CudaSpace>(described(index)));
}

}  // namespace slicecheck::memory
