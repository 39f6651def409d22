#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/must.h"
#include "memory/cuda/device.h"
#include "memory/cuda/kernels.h"
#include "memory/cuda/lane.h"

namespace slicecheck::memory {
namespace {

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
  /// `blocks_max`: of a pack, at once.
  CudaSpace(Device device, unsigned blocks_max)
      : device_(std::move(device)),
        lane_(std::make_shared<Lane>(device_.index)),
        blocks_max_(blocks_max) {
    for (cudaEvent_t& event : marks_) must_do(cudaEventCreate(&event), "cudaEventCreate");
    device_.free_bytes = memory::free_bytes();
  }

  ~CudaSpace() override {
    cudaSetDevice(device_.index);
    for (cudaEvent_t event : marks_) cudaEventDestroy(event);
  }

  std::string_view name() const override { return "cuda"; }
  const Device& device() const override { return device_; }
  void* stream() override { return queue(); }

  void mark(int which) override {
    here();
    must_do(cudaEventRecord(marks_.at(which), queue()), "cudaEventRecord");
  }

  double milliseconds(int from, int to) override {
    float between = 0;
    must_do(cudaEventSynchronize(marks_.at(to)), "cudaEventSynchronize");
    must_do(cudaEventElapsedTime(&between, marks_.at(from), marks_.at(to)), "cudaEventElapsedTime");
    return between;
  }

  double comparison_milliseconds() override { return milliseconds(begun, ended); }
  std::int64_t peak_bytes() override { return lane_->peak(); }
  void watch(std::function<void(std::chrono::milliseconds)> watcher) override {
    if (beside_) beside_->watch(watcher);
    watcher_ = std::move(watcher);
  }
  void on_fault(std::function<void(const std::string&)> told) override {
    if (beside_) beside_->on_fault(told);
    lane_->on_fault(std::move(told));
  }

  /// Made before there is work, while memory for it is there. A block of the pack fills half a
  /// multiprocessor; with more of them the kernels of an exchange come to their turn too late.
  void add_lane() {
    const int half = std::max(1, device_.multiprocessors / 2);
    beside_ = std::make_unique<CudaSpace>(device_, static_cast<unsigned>(half));
  }

  Space& beside() override {
    must(beside_ != nullptr, "a second lane has none beside it");
    return *beside_;
  }

  void wait_for(Space& other) override {
    auto* const space = dynamic_cast<CudaSpace*>(&other);
    must(space != nullptr, "a device waits for another memory");
    lane_->wait_for(*space->lane_);
  }

  Result<std::shared_ptr<std::uint8_t>> allocate(std::int64_t bytes,
                                                 std::string_view purpose) override {
    here();
    std::uint8_t* made = lane_->take(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256)));
    if (made == nullptr) {
      return Reason(fmt::format("device memory is out: {} wants {} bytes, {} bytes are free",
                                purpose, bytes, memory::free_bytes()),
                    "out-of-memory");
    }
    return std::shared_ptr<std::uint8_t>(made,
                                         [lane = lane_](std::uint8_t* data) { lane->give(data); });
  }

  void upload(std::uint8_t* to, Bytes from) override {
    synchronise();
    must_do(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, queue()),
            "a copy to the device");
    must_do(cudaStreamSynchronize(queue()), "a copy to the device");
  }

  void download(MutableBytes to, const std::uint8_t* from) override {
    synchronise();
    must_do(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, queue()),
            "a copy from the device");
    must_do(cudaStreamSynchronize(queue()), "a copy from the device");
  }

  void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) override {
    here();
    must_do(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                            queue()),
            "a copy on the device");
  }

  void fill(std::uint8_t* to, std::uint8_t value, std::int64_t bytes) override {
    here();
    must_do(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), queue()),
            "cudaMemsetAsync");
  }

  void fill_plain(std::uint8_t* to, const PayloadPlain& plain) override {
    here();
    kernels::fill_plain(to, plain, queue());
    launched("fill_plain");
  }

  void fill_payload(std::uint8_t* to, const PayloadTensor& tensor) override {
    here();
    kernels::fill_payload(to, tensor, queue());
    launched("fill_payload");
  }

  void convert(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
               const PlainSource& from, std::int64_t experts) override {
    here();
    if (layout::is_scale(kind)) {
      kernels::convert_scales(to, kind, widths, from, experts, queue());
    } else {
      kernels::convert_weights(to, kind, widths, from, experts, queue());
    }
    launched("convert");
  }

  void pack(const Packed& to, const std::uint8_t* stock, layout::Kind kind,
            const layout::Shape& shape) override {
    here();
    kernels::pack(to, stock, layout::cut(kind, shape), shape, blocks_max_, queue());
    launched("pack");
  }

  Difference compare(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) override {
    here();
    kernels::Found* found = cleared(1);
    mark(begun);
    kernels::compare(found, a, b, bytes, queue());
    launched("compare");
    mark(ended);
    return differences(1).front();
  }

  std::vector<Difference> compare_payload(const std::uint8_t* got,
                                          const PayloadTensor& tensor) override {
    here();
    kernels::Found* found = cleared(tensor.experts);
    mark(begun);
    kernels::compare_payload(found, got, tensor, queue());
    launched("compare_payload");
    mark(ended);
    return differences(tensor.experts);
  }

  Digest digest(const std::uint8_t* from, std::int64_t bytes) override {
    here();
    auto* const sums = reinterpret_cast<unsigned long long*>(scratch(sizeof(Digest)));
    must_do(cudaMemsetAsync(sums, 0, sizeof(Digest), queue()), "cudaMemsetAsync");
    kernels::digest(sums, from, bytes, queue());
    launched("digest");
    std::array<std::uint64_t, 2> words{};
    download({reinterpret_cast<std::uint8_t*>(words.data()), sizeof words}, scratch_.get());
    Digest made;
    store(made.bytes.data(), layout::mix64(words[0] + static_cast<std::uint64_t>(bytes)));
    store(made.bytes.data() + 8, layout::mix64(words[1] ^ words[0]));
    return made;
  }

  void synchronise() override {
    here();
    if (!watcher_) {
      must_do(cudaStreamSynchronize(queue()), "the work of the stream");
      return;
    }
    const auto since = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t status = cudaStreamQuery(queue());
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) must_do(status, "the work of the stream");
      const auto waited = std::chrono::steady_clock::now() - since;
      watcher_(std::chrono::duration_cast<std::chrono::milliseconds>(waited));
      if (waited < spun) continue;
      std::this_thread::sleep_for(looked_every);
    }
  }

 private:
  // The marks of a comparison lie behind those that callers may set.
  static constexpr int begun = 8;
  static constexpr int ended = 9;

  // Short work is met at once, long work without a core of its own.
  static constexpr std::chrono::milliseconds spun{20};
  static constexpr std::chrono::microseconds looked_every{100};

  cudaStream_t queue() const { return lane_->stream(); }
  void here() const { lane_->here(); }

  void must_do(cudaError_t status, std::string_view call) const { lane_->must_do(status, call); }
  void launched(std::string_view kernel) const { must_do(cudaGetLastError(), kernel); }

  std::uint8_t* scratch(std::int64_t bytes) {
    if (bytes <= scratch_bytes_) return scratch_.get();
    auto made = allocate(bytes, "the counters of a comparison");
    if (made.reason) bug(made.reason.text());
    scratch_ = *made;
    scratch_bytes_ = bytes;
    return scratch_.get();
  }

  kernels::Found* cleared(std::int64_t count) {
    const auto bytes = count * static_cast<std::int64_t>(sizeof(kernels::Found));
    auto* const found = reinterpret_cast<kernels::Found*>(scratch(bytes));
    must_do(cudaMemsetAsync(found, 0, static_cast<std::size_t>(bytes), queue()), "cudaMemsetAsync");
    return found;
  }

  std::vector<Difference> differences(std::int64_t count) {
    std::vector<kernels::Found> found(static_cast<std::size_t>(count));
    download({reinterpret_cast<std::uint8_t*>(found.data()), count * sizeof(kernels::Found)},
             scratch_.get());
    std::vector<Difference> made;
    for (const kernels::Found& of : found) {
      made.push_back({static_cast<std::int64_t>(of.differing),
                      of.differing == 0 ? -1 : static_cast<std::int64_t>(~of.last_before)});
    }
    return made;
  }

  Device device_;
  std::shared_ptr<Lane> lane_;
  std::array<cudaEvent_t, 10> marks_{};
  std::shared_ptr<std::uint8_t> scratch_;
  std::int64_t scratch_bytes_ = 0;
  std::function<void(std::chrono::milliseconds)> watcher_;
  unsigned blocks_max_;
  std::unique_ptr<CudaSpace> beside_;
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
  auto made = std::make_unique<CudaSpace>(described(index), ~0U);
  made->add_lane();
  return std::unique_ptr<DeviceSpace>(std::move(made));
}

}  // namespace slicecheck::memory
