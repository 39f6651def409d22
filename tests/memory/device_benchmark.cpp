// One rank's layer in device memory: the device's own copy, then the cut, the conversion and the
// verification of each kind, by the device's clock. Rates count bytes read and written for what
// moves, bytes checked for what judges. The tensors of a layer follow one another, so that what a
// kind reads has been pushed out of the L2 by the others. Without a device: 77.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "memory/cuda/device.h"

namespace slicecheck::memory {
namespace {

using layout::Kind;

constexpr int warm_up = 3;
constexpr int rounds = 20;

struct Layer {
  const char* name;
  layout::Shape shape;
};

class Rates {
 public:
  Rates(DeviceSpace& space, const layout::Shape& shape) : space_(space), shape_(shape) {
    for (const Kind kind : layout::kinds) {
      const PayloadTensor tensor = due(kind, 1, layout::PayloadKind::bytes);
      bytes_[at(kind)] = tensor.expert_bytes() * tensor.experts;
      stock_[at(kind)] = *space.allocate(bytes_[at(kind)], "stock");
      other_[at(kind)] = *space.allocate(bytes_[at(kind)], "other");
      space.fill_payload(stock_[at(kind)].get(), tensor);
    }
  }

  /// Runs `each` over the kinds, again and again; prints GB/s of each kind and of all.
  void print(const char* what, double passes, const std::function<void(Kind)>& each) {
    std::array<std::vector<double>, 5> times;
    for (int round = -warm_up; round < rounds; ++round) {
      for (const Kind kind : layout::kinds) {
        space_.mark(static_cast<int>(at(kind)));
        each(kind);
      }
      space_.mark(4);
      for (int i = 0; i < 5 && round >= 0; ++i) {
        times[i].push_back(i < 4 ? space_.milliseconds(i, i + 1) : space_.milliseconds(0, 4));
      }
    }
    row(what, passes, times);
  }

  /// The same for comparisons, by the time of their kernels.
  void print_verify(const char* what, layout::PayloadKind payload) {
    for (const Kind kind : layout::kinds) {
      space_.fill_payload(other(kind), due(kind, shape_.tp, payload));
    }
    std::array<std::vector<double>, 5> times;
    for (int round = -warm_up; round < rounds; ++round) {
      double sum = 0;
      for (const Kind kind : layout::kinds) {
        space_.compare_payload(other(kind), due(kind, shape_.tp, payload));
        const double time = space_.comparison_milliseconds();
        sum += time;
        if (round >= 0) times[at(kind)].push_back(time);
      }
      if (round >= 0) times[4].push_back(sum);
    }
    row(what, 1, times);
  }

  std::uint8_t* stock(Kind kind) { return stock_[at(kind)].get(); }
  std::uint8_t* other(Kind kind) { return other_[at(kind)].get(); }
  std::int64_t bytes(Kind kind) const { return bytes_[at(kind)]; }

 private:
  static std::size_t at(Kind kind) { return static_cast<std::size_t>(kind); }

  PayloadTensor due(Kind kind, std::int64_t tp, layout::PayloadKind payload) const {
    return {{payload, 1, 0}, kind, layout::stock_widths(shape_),  tp,
            tp - 1,          0,    shape_.experts_per_rank() * tp};
  }

  void row(const char* what, double passes, std::array<std::vector<double>, 5>& times) const {
    std::printf("%-16s", what);
    std::int64_t all = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      std::sort(times[i].begin(), times[i].end());
      const std::int64_t moved = i < 4 ? bytes_[i] : all;
      all += i < 4 ? bytes_[i] : 0;
      std::printf(" %8.0f",
                  passes * static_cast<double>(moved) / times[i][times[i].size() / 2] / 1e6);
    }
    std::printf("\n");
  }

  DeviceSpace& space_;
  layout::Shape shape_;
  std::array<std::int64_t, 4> bytes_{};
  std::array<std::shared_ptr<std::uint8_t>, 4> stock_;
  std::array<std::shared_ptr<std::uint8_t>, 4> other_;
};

void run(DeviceSpace& space, const Layer& layer) {
  Rates rates(space, layer.shape);
  std::printf("\n%s, one rank of %lld, GB/s\n%-16s %8s %8s %8s %8s %8s\n", layer.name,
              static_cast<long long>(layer.shape.tp), "", "w13", "w13_sf", "w2", "w2_sf", "all");
  rates.print("copy", 2, [&](Kind kind) {
    space.copy(rates.other(kind), rates.stock(kind), rates.bytes(kind));
  });
  rates.print("pack", 2, [&](Kind kind) {
    space.pack(rates.other(kind), rates.stock(kind), kind, layer.shape);
  });
  rates.print("convert", 2, [&](Kind kind) {
    std::uint8_t* const from = rates.stock(kind);
    space.convert(rates.other(kind), kind, layout::stock_widths(layer.shape),
                  {from, from + rates.bytes(kind) / 2, from}, layer.shape.experts_per_rank());
  });
  rates.print_verify("verify bytes", layout::PayloadKind::bytes);
  rates.print_verify("verify numeric", layout::PayloadKind::numeric);
}

}  // namespace
}  // namespace slicecheck::memory

int main() {
  using slicecheck::memory::Layer;
  auto made = slicecheck::memory::device_space(0);
  if (made.reason) {
    std::printf("not run: %s\n", made.reason.text().c_str());
    return 77;
  }
  std::printf("%s\n", (*made)->device().name.c_str());
  for (const Layer& layer : {Layer{"E 256, H 7168, I 2048", {256, 7168, 2048, 8}},
                             Layer{"E 128, H 4096, I 1536", {128, 4096, 1536, 4}},
                             Layer{"E 256, H 7168, I 2048", {256, 7168, 2048, 2}}}) {
    slicecheck::memory::run(**made, layer);
  }
  return 0;
}
