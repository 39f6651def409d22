// A tensor is bytes with a type, extents and, where it is not contiguous, strides. It says nothing
// of where its bytes lie: `data` may be host or device memory, its deleter knows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace slicecheck {

/// Element types by the names that safetensors gives them.
enum class Dtype { u8, f8_e4m3, f32, bf16, i32 };

/// "U8", "F8_E4M3", "F32", "BF16", "I32".
std::string_view name(Dtype dtype);

/// Bytes of one element.
std::int64_t size(Dtype dtype);

/// Extents, slowest first; [] is a scalar.
using Extents = std::vector<std::int64_t>;

/// The product of the extents: elements.
std::int64_t count(const Extents& extents);

/// "[a, b]".
std::string text(const Extents& extents);

/// Shares its bytes when copied. `strides` are in elements, empty when contiguous.
struct Tensor {
  Dtype dtype = Dtype::u8;
  Extents extents;
  Extents strides;
  std::shared_ptr<std::uint8_t> data;

  std::int64_t bytes() const { return count(extents) * size(dtype); }
};

/// True when no strides are given, or they are those of a contiguous tensor.
bool is_contiguous(const Tensor& tensor);

/// "U8 [a, b]".
std::string text(const Tensor& tensor);

/// A contiguous tensor in host memory, its bytes not set.
Tensor host_tensor(Dtype dtype, Extents extents);

/// The bytes of a contiguous tensor that lies in host memory.
MutableBytes host_bytes(const Tensor& tensor);

/// An F32 tensor [values.size()] in host memory with these values.
Tensor host_floats(const std::vector<float>& values);

/// The values of a contiguous F32 tensor that lies in host memory.
std::vector<float> floats(const Tensor& tensor);

}  // namespace slicecheck
