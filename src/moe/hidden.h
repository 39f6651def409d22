// The hidden states of a probe: BF16 of standard normals, the same bits on every machine. No libm:
// a normal is the sum of 48 uniform 16-bit digits, centred. Its variance 48 (2^32 - 1) / 12 is
// 2^34 less 4 parts, so a division by 2^17 makes it 1; the fourth moment is 3 - 1.2 / 48.
//   element (t, h) = bf16((digits of words 12 h .. 12 h + 11 of token t, summed, - 24 65535) 2^-17)
// with the words of layout::weight_word and the key of kind 9 of "expert" t of the seed.
#pragma once

#include <cstdint>
#include <vector>

namespace slicecheck::moe {

/// BF16 values of T tokens as FP32, [T, H].
std::vector<float> hidden_states(std::uint64_t seed, std::int64_t tokens, std::int64_t hidden);

}  // namespace slicecheck::moe
