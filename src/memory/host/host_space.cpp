#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <new>

#include "memory/host/moves.h"
#include "memory/host/payload_run.h"

namespace slicecheck::memory {
namespace {

constexpr std::int64_t alignment = 256;
constexpr std::int64_t huge_page = std::int64_t{2} << 20;

std::int64_t free_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string name, unit; file >> name;) {
    std::int64_t kib = 0;
    if (file >> kib && name == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

Reason out_of_memory(std::int64_t bytes, std::string_view purpose) {
  return Reason(fmt::format("host memory is out: {} wants {} bytes, {} bytes are free", purpose,
                            bytes, free_bytes()),
                "out-of-memory");
}

std::uint8_t* taken(std::int64_t bytes, std::align_val_t align) {
  return static_cast<std::uint8_t*>(
      ::operator new(static_cast<std::size_t>(bytes), align, std::nothrow));
}

/// Large buffers that were given back, for whoever asks for just as many bytes: layers of one shape
/// follow one another, and the first write of fresh memory costs more than the bytes. What is kept
/// is dropped as soon as another size is asked for, so it never adds to a peak. Every buffer keeps
/// it alive.
class Kept {
 public:
  Kept() = default;
  ~Kept() { drop(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  /// Null when memory is out.
  std::uint8_t* take(std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto same = buffers_.find(bytes);
    if (same != buffers_.end()) {
      std::uint8_t* const made = same->second;
      buffers_.erase(same);
      return made;
    }
    drop();
    std::uint8_t* const made = taken(bytes, align);
    if (made != nullptr) {
      madvise(made, static_cast<std::size_t>(bytes / huge_page * huge_page), MADV_HUGEPAGE);
    }
    return made;
  }

  void give(std::uint8_t* data, std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    buffers_.emplace(bytes, data);
  }

 private:
  static constexpr auto align = static_cast<std::align_val_t>(huge_page);

  void drop() {
    for (const auto& [bytes, data] : buffers_) ::operator delete(data, align);
    buffers_.clear();
  }

  std::mutex mutex_;
  std::multimap<std::int64_t, std::uint8_t*> buffers_;
};

class HostSpace final : public Space {
 public:
  std::string_view name() const override { return "host"; }

  // Large buffers are aligned to huge pages and ask for them: a first write then costs one fault
  // in 2 MiB instead of one in 4 KiB, which would cost more than the bytes.
  Result<std::shared_ptr<std::uint8_t>> allocate(std::int64_t bytes,
                                                 std::string_view purpose) override {
    if (bytes < 0) return out_of_memory(bytes, purpose);
    if (bytes >= 2 * huge_page) {
      std::uint8_t* const made = kept_->take(bytes);
      if (made == nullptr) return out_of_memory(bytes, purpose);
      return std::shared_ptr<std::uint8_t>(
          made, [kept = kept_, bytes](std::uint8_t* data) { kept->give(data, bytes); });
    }
    constexpr auto align = static_cast<std::align_val_t>(alignment);
    std::uint8_t* const made = taken(std::max(bytes, alignment), align);
    if (made == nullptr) return out_of_memory(bytes, purpose);
    return std::shared_ptr<std::uint8_t>(
        made, [](std::uint8_t* data) { ::operator delete(data, align); });
  }

  void upload(std::uint8_t* to, Bytes from) override { copy(to, from.data(), std::ssize(from)); }
  void download(MutableBytes to, const std::uint8_t* from) override {
    copy(to.data(), from, std::ssize(to));
  }
  // No bytes may lie nowhere.
  void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void fill(std::uint8_t* to, std::uint8_t value, std::int64_t bytes) override {
    if (bytes > 0) std::memset(to, value, static_cast<std::size_t>(bytes));
  }

  void fill_plain(std::uint8_t* to, const PayloadPlain& plain) override {
    fill_plain_matrices(to, plain);
  }

  void fill_payload(std::uint8_t* to, const PayloadTensor& tensor) override {
    const PayloadRuns runs(tensor);
    for (std::int64_t local = 0; local < tensor.experts; ++local) {
      std::uint8_t* expert = to + local * tensor.expert_bytes();
      runs.each_run(tensor.first_expert + local,
                    [&](const Run& run) { runs.write(expert + run.at * runs.unit_bytes(), run); });
    }
  }

  void convert(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
               const PlainSource& from, std::int64_t experts) override {
    const layout::Matrix matrix = layout::matrix(kind, widths);
    for (std::int64_t e = 0; e < experts; ++e) {
      if (layout::is_scale(kind)) {
        convert_scales(to + e * matrix.bytes(), kind, matrix, plain_expert(from, kind, matrix, e));
      } else {
        convert_weights(to + e * matrix.bytes(), kind, matrix, plain_expert(from, kind, matrix, e));
      }
    }
  }

  void pack(const Packed& to, const std::uint8_t* stock, layout::Kind kind,
            const layout::Shape& shape) override {
    pack_slices(to, stock, layout::cut(kind, shape), shape);
  }

  Difference compare(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) override {
    return difference(a, b, bytes);
  }

  std::vector<Difference> compare_payload(const std::uint8_t* got,
                                          const PayloadTensor& tensor) override {
    const PayloadRuns runs(tensor);
    ByteVector due(runs.run_bytes());
    std::vector<Difference> all(tensor.experts);
    for (std::int64_t local = 0; local < tensor.experts; ++local) {
      const std::uint8_t* expert = got + local * tensor.expert_bytes();
      runs.each_run(tensor.first_expert + local, [&](const Run& run) {
        const std::int64_t offset = run.at * runs.unit_bytes();
        runs.write(due.data(), run);
        add(all[local], difference(expert + offset, due.data(), run.count * runs.unit_bytes()),
            offset);
      });
    }
    return all;
  }

  Digest digest(const std::uint8_t* from, std::int64_t bytes) override {
    return slicecheck::digest({from, static_cast<std::size_t>(bytes)});
  }

  void synchronise() override {}

 private:
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace

std::unique_ptr<Space> host_space() { return std::make_unique<HostSpace>(); }

}  // namespace slicecheck::memory
