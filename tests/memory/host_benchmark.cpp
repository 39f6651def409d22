// Host memory against memcpy of the same bytes, in one run: one qwen3-30b layer's experts of a rank
// of 4, each kind apart. Rates count the bytes of the tensor once, for memcpy too.
#include <benchmark/benchmark.h>

#include <array>

#include "memory/space.h"

namespace slicecheck::memory {
namespace {

using layout::Kind;

// E over all ranks; widths are qwen3-30b's. 32 experts a rank: every tensor is beyond the L2.
constexpr layout::Shape shape{128, 2048, 768, 4};
constexpr layout::Payload payload{layout::PayloadKind::bytes, 1, 0};
constexpr layout::Payload numeric{layout::PayloadKind::numeric, 1, 0};

PayloadTensor stock(Kind kind, const layout::Payload& of) {
  return {of, kind, layout::stock_widths(shape), 1, 0, 0, shape.experts_per_rank()};
}

PayloadTensor slice(Kind kind, const layout::Payload& of) {
  return {of, kind, layout::stock_widths(shape), shape.tp, 1, 0, shape.experts};
}

/// Two buffers that hold a kind's stock, written before anything is timed.
class Buffers {
 public:
  explicit Buffers(Kind kind)
      : space_(host_space()),
        bytes_(stock(kind, payload).expert_bytes() * shape.experts_per_rank()),
        a_(*space_->allocate(bytes_, "a")),
        b_(*space_->allocate(bytes_, "b")) {
    space_->fill_payload(a(), stock(kind, payload));
    space_->fill_payload(b(), stock(kind, payload));
  }

  Space& space() { return *space_; }
  std::int64_t bytes() const { return bytes_; }
  std::uint8_t* a() { return a_.get(); }
  std::uint8_t* b() { return b_.get(); }

  void count(benchmark::State& state) const {
    state.SetBytesProcessed(state.iterations() * bytes_);
  }

 private:
  std::unique_ptr<Space> space_;
  std::int64_t bytes_;
  std::shared_ptr<std::uint8_t> a_;
  std::shared_ptr<std::uint8_t> b_;
};

void copy(benchmark::State& state, Kind kind) {
  Buffers buffers(kind);
  for ([[maybe_unused]] auto turn : state) {
    std::memcpy(buffers.b(), buffers.a(), static_cast<std::size_t>(buffers.bytes()));
    benchmark::ClobberMemory();
  }
  buffers.count(state);
}

void convert(benchmark::State& state, Kind kind) {
  Buffers buffers(kind);
  const PlainSource from =
      layout::is_w13(kind) ? PlainSource{buffers.a(), buffers.a() + buffers.bytes() / 2, nullptr}
                           : PlainSource{nullptr, nullptr, buffers.a()};
  for ([[maybe_unused]] auto turn : state) {
    buffers.space().convert(buffers.b(), kind, layout::stock_widths(shape), from,
                            shape.experts_per_rank());
  }
  buffers.count(state);
}

void pack(benchmark::State& state, Kind kind) {
  Buffers buffers(kind);
  for ([[maybe_unused]] auto turn : state)
    buffers.space().pack(buffers.b(), buffers.a(), kind, shape);
  buffers.count(state);
}

void compare(benchmark::State& state, Kind kind) {
  Buffers buffers(kind);
  for ([[maybe_unused]] auto turn : state) {
    benchmark::DoNotOptimize(buffers.space().compare(buffers.a(), buffers.b(), buffers.bytes()));
  }
  buffers.count(state);
}

void compare_payload(benchmark::State& state, const PayloadTensor& tensor) {
  Buffers buffers(tensor.kind);
  buffers.space().fill_payload(buffers.b(), tensor);
  for ([[maybe_unused]] auto turn : state) {
    benchmark::DoNotOptimize(buffers.space().compare_payload(buffers.b(), tensor));
  }
  buffers.count(state);
}

void add_kind(Kind kind) {
  const auto name = [kind](std::string what) {
    what += '/';
    return what.append(layout::name(kind));
  };
  benchmark::RegisterBenchmark(name("memcpy").c_str(), copy, kind);
  benchmark::RegisterBenchmark(name("convert").c_str(), convert, kind);
  benchmark::RegisterBenchmark(name("pack").c_str(), pack, kind);
  benchmark::RegisterBenchmark(name("compare").c_str(), compare, kind);
  benchmark::RegisterBenchmark(name("verify_bytes").c_str(), compare_payload, slice(kind, payload));
  benchmark::RegisterBenchmark(name("verify_numeric").c_str(), compare_payload,
                               slice(kind, numeric));
}

}  // namespace
}  // namespace slicecheck::memory

int main(int argc, char** argv) {
  for (const auto kind : slicecheck::layout::kinds) slicecheck::memory::add_kind(kind);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
