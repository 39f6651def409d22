#include <gtest/gtest.h>

#include "base/digest.h"
#include "base/must.h"
#include "base/reason.h"
#include "base/tensor.h"

namespace slicecheck {
namespace {

Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Values of xxhsum -H128 on the same bytes.
TEST(Digest, is_canonical_xxh3_128) {
  EXPECT_EQ(hex(digest({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hex(digest(bytes_of("a"))), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(hex(digest(bytes_of("abc"))), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, of_pieces_is_the_digest_of_the_whole) {
  ByteVector all(5000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
  for (const std::size_t cut : {0U, 1U, 240U, 256U, 1024U, 4999U, 5000U}) {
    DigestStream stream;
    stream.add(Bytes(all).first(cut));
    stream.add(Bytes(all).subspan(cut));
    EXPECT_EQ(stream.of(), digest(all)) << cut;
  }
}

TEST(Digest, changes_with_one_bit) {
  ByteVector all(512, 7);
  const Digest before = digest(all);
  all[511] ^= 1;
  EXPECT_NE(digest(all), before);
}

TEST(Bytes, words_are_little_endian_and_unaligned) {
  ByteVector bytes(16);
  store(bytes.data() + 3, std::uint32_t{0x04030201});
  EXPECT_EQ(bytes[3], 1);
  EXPECT_EQ(bytes[6], 4);
  EXPECT_EQ(load<std::uint32_t>(bytes.data() + 3), 0x04030201U);
  EXPECT_EQ(load<std::uint16_t>(bytes.data() + 4), 0x0302U);
}

TEST(Reason, says_whether_there_is_one) {
  const Reason none;
  const Reason some("3 is not 4", "shape-unsupported");
  EXPECT_FALSE(none);
  EXPECT_TRUE(some);
  EXPECT_EQ(some.text(), "3 is not 4");
  EXPECT_EQ(some.cause(), "shape-unsupported");
}

TEST(Reason, result_is_a_value_or_a_reason) {
  const Result<int> value = 4;
  const Result<int> reason = Reason("no value");
  EXPECT_FALSE(value.reason);
  EXPECT_EQ(*value, 4);
  EXPECT_TRUE(reason.reason);
  EXPECT_FALSE(reason.value.has_value());
}

TEST(Tensor, names_sizes_and_texts_are_those_of_safetensors) {
  EXPECT_EQ(name(Dtype::u8), "U8");
  EXPECT_EQ(name(Dtype::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(name(Dtype::f32), "F32");
  EXPECT_EQ(name(Dtype::bf16), "BF16");
  EXPECT_EQ(name(Dtype::i32), "I32");
  EXPECT_EQ(size(Dtype::f8_e4m3), 1);
  EXPECT_EQ(size(Dtype::bf16), 2);
  EXPECT_EQ(size(Dtype::i32), 4);
  EXPECT_EQ(text(Extents{2, 256, 64}), "[2, 256, 64]");
  EXPECT_EQ(text(Extents{}), "[]");
  EXPECT_EQ(text(host_tensor(Dtype::f32, {3})), "F32 [3]");
}

TEST(Tensor, counts_elements_and_bytes) {
  EXPECT_EQ(count({}), 1);
  EXPECT_EQ(count({4, 0, 2}), 0);
  const Tensor tensor = host_tensor(Dtype::bf16, {3, 5});
  EXPECT_EQ(tensor.bytes(), 30);
  EXPECT_EQ(host_bytes(tensor).size(), 30U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.get()) % 256, 0U);
}

TEST(Tensor, is_contiguous_by_its_strides) {
  Tensor tensor = host_tensor(Dtype::u8, {2, 3, 4});
  EXPECT_TRUE(is_contiguous(tensor));
  tensor.strides = {12, 4, 1};
  EXPECT_TRUE(is_contiguous(tensor));
  tensor.strides = {12, 1, 3};
  EXPECT_FALSE(is_contiguous(tensor));
  tensor.strides = {24, 4, 1};
  EXPECT_FALSE(is_contiguous(tensor));
}

TEST(Tensor, stride_of_an_extent_of_one_does_not_matter) {
  Tensor tensor = host_tensor(Dtype::u8, {1, 3, 1});
  tensor.strides = {99, 1, 7};
  EXPECT_TRUE(is_contiguous(tensor));
}

TEST(Tensor, floats_come_back_with_their_bits) {
  const std::vector<float> values{0.0F, -0.0F, 1.0F, 1e-42F, 3.4e38F};
  const std::vector<float> back = floats(host_floats(values));
  ASSERT_EQ(back.size(), values.size());
  EXPECT_EQ(std::memcmp(back.data(), values.data(), 4 * values.size()), 0);
}

TEST(MustDeathTest, a_broken_promise_ends_the_process_with_5_and_its_text) {
  EXPECT_EXIT(must(false, "1 is not 2"), testing::ExitedWithCode(5), "internal error: 1 is not 2");
  EXPECT_EXIT(bug("no way"), testing::ExitedWithCode(5), "internal error: no way");
  must(true, "not said");
}

}  // namespace
}  // namespace slicecheck
