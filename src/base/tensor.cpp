#include "base/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>

#include "base/must.h"

namespace slicecheck {
namespace {

constexpr std::size_t alignment_bytes = 256;

}  // namespace

std::string_view name(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8: return "U8";
    case Dtype::f8_e4m3: return "F8_E4M3";
    case Dtype::f32: return "F32";
    case Dtype::bf16: return "BF16";
    case Dtype::i32: return "I32";
  }
  bug("a dtype without a name");
}

std::int64_t size(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8:
    case Dtype::f8_e4m3: return 1;
    case Dtype::bf16: return 2;
    case Dtype::f32:
    case Dtype::i32: return 4;
  }
  bug("a dtype without a size");
}

std::int64_t count(const Extents& extents) {
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) product *= extent;
  return product;
}

std::string text(const Extents& extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

bool is_contiguous(const Tensor& tensor) {
  if (tensor.strides.empty()) return true;
  std::int64_t stride = 1;
  for (std::size_t i = tensor.extents.size(); i-- > 0;) {
    if (tensor.extents[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.extents[i];
  }
  return true;
}

std::string text(const Tensor& tensor) {
  return fmt::format("{} {}", name(tensor.dtype), text(tensor.extents));
}

Tensor host_tensor(Dtype dtype, Extents extents) {
  Tensor made{dtype, std::move(extents), {}, nullptr};
  must(made.bytes() >= 0, "a tensor of negative size");
  constexpr std::align_val_t alignment{alignment_bytes};
  auto* at = static_cast<std::uint8_t*>(
      ::operator new(static_cast<std::size_t>(made.bytes()), alignment));
  made.data = std::shared_ptr<std::uint8_t>(
      at, [](std::uint8_t* p) { ::operator delete(p, std::align_val_t{alignment_bytes}); });
  return made;
}

MutableBytes host_bytes(const Tensor& tensor) {
  must(is_contiguous(tensor), "bytes asked of a tensor that is not contiguous");
  return {tensor.data.get(), static_cast<std::size_t>(tensor.bytes())};
}

Tensor host_floats(const std::vector<float>& values) {
  Tensor made = host_tensor(Dtype::f32, {static_cast<std::int64_t>(values.size())});
  std::memcpy(made.data.get(), values.data(), values.size() * sizeof(float));
  return made;
}

std::vector<float> floats(const Tensor& tensor) {
  must(tensor.dtype == Dtype::f32, "floats asked of a tensor of another type");
  const MutableBytes bytes = host_bytes(tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace slicecheck
