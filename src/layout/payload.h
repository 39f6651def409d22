// The payload rule: synthetic experts whose every unit names its own origin. All arithmetic wraps.
// An 8-byte word of a weight and a 4-byte unit of a scale are functions of seed, expert, projection
// and place, so an expected byte is computed and never stored. It made the golden data.
// Source: SplitMix64's finaliser (mix64), MurmurHash3's (mix32).
#pragma once

#include <bit>

#include "layout/place.h"

namespace slicecheck::layout {

/// `bytes`: scales take all 256 byte values. `numeric`: scales are finite positive E4M3. `exact`:
/// numeric, but w2 has a single 1.0 a row.
enum class PayloadKind { bytes, numeric, exact };

constexpr std::string_view name(PayloadKind kind) {
  constexpr std::array<std::string_view, 3> names{"bytes", "numeric", "exact"};
  return names[static_cast<std::size_t>(kind)];
}

/// What a run's synthetic experts are made from. `round` is q of payload exact, else 0.
struct Payload {
  PayloadKind kind = PayloadKind::bytes;
  std::uint64_t seed = 1;  // of the layer: layer_seed()
  std::int64_t round = 0;
  constexpr bool operator==(const Payload&) const = default;
};

/// The seed of layer L of a run; a run without layers is L = 0.
constexpr std::uint64_t layer_seed(std::uint64_t seed, std::uint64_t layer) {
  return seed ^ (layer << 32);
}

inline constexpr std::uint64_t golden_gamma = 0x9E3779B97F4A7C15U;
inline constexpr std::int64_t word_bytes = 8;   // a weight's unit
inline constexpr std::int64_t word_codes = 16;  // elements in it
inline constexpr std::int64_t unit_bytes = 4;   // a scale's unit

constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

constexpr std::uint32_t mix32(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6BU;
  x = (x ^ (x >> 13)) * 0xC2B2AE35U;
  return x ^ (x >> 16);
}

/// The key of weight kind 1 (w1), 3 (w3), 5 (w2) or 7 (scalars) of an expert.
constexpr std::uint64_t word_key(std::uint64_t seed, std::int64_t expert, std::uint64_t kind) {
  return mix64(seed ^ ((16 * static_cast<std::uint64_t>(expert) + kind) * golden_gamma));
}

constexpr std::uint64_t word_kind(Projection projection) {
  return 2 * static_cast<std::uint64_t>(projection) + 1;
}

static_assert(word_kind(Projection::w1) == 1);
static_assert(word_kind(Projection::w3) == 3);
static_assert(word_kind(Projection::w2) == 5);

/// Weight word j of a plain matrix (row-major, 16 elements each), to be stored little-endian.
constexpr std::uint64_t weight_word(std::uint64_t key, std::int64_t j) {
  return mix64(key + (static_cast<std::uint64_t>(j) + 1) * golden_gamma);
}

/// Scale units of one plain matrix: U = H I / 64.
constexpr std::int64_t scale_units(const Widths& widths) {
  return widths.hidden * widths.intermediate / 64;
}

/// The number of scale unit j of a projection of an expert: g = (3 expert + p) U + j.
constexpr std::int64_t scale_unit(std::int64_t expert, Projection projection, std::int64_t j,
                                  const Widths& widths) {
  return (3 * expert + static_cast<std::int64_t>(projection)) * scale_units(widths) + j;
}

constexpr std::uint64_t scale_key(std::uint64_t seed) { return mix64(seed ^ (8 * golden_gamma)); }

inline constexpr std::uint64_t numeric_values = 126;  // 1 .. 126: finite positive E4M3
inline constexpr std::uint64_t numeric_range =
    numeric_values * numeric_values * numeric_values * numeric_values;
inline constexpr std::uint64_t numeric_step = 155773847;

/// What is mixed into scale unit g of payload `bytes`; one unit on it is bytes_step more.
inline constexpr std::uint32_t bytes_step = 0x9E3779B9U;
constexpr std::uint32_t bytes_value(std::uint64_t key8, std::int64_t g) {
  return static_cast<std::uint32_t>(key8) + (static_cast<std::uint32_t>(g) + 1) * bytes_step;
}

/// Scale unit g of payload `bytes`, to be stored little-endian.
constexpr std::uint32_t bytes_unit(std::uint64_t key8, std::int64_t g) {
  return mix32(bytes_value(key8, g));
}

/// The value v < numeric_range behind scale unit g of payloads `numeric` and `exact`; one unit on
/// it is numeric_step more, mod numeric_range.
constexpr std::uint32_t numeric_value(std::uint64_t key8, std::int64_t g) {
  return static_cast<std::uint32_t>(
      (key8 % numeric_range + (static_cast<std::uint64_t>(g) + 1) * numeric_step) % numeric_range);
}

/// The four bytes 1 to 126 of a value, lowest digit first.
constexpr std::uint32_t numeric_digits(std::uint32_t value) {
  constexpr auto base = static_cast<std::uint32_t>(numeric_values);
  std::uint32_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    unit |= (1 + value % base) << (8 * i);
    value /= base;
  }
  return unit;
}

/// Scale unit g of payloads `numeric` and `exact`, to be stored little-endian.
constexpr std::uint32_t numeric_unit(std::uint64_t key8, std::int64_t g) {
  return numeric_digits(numeric_value(key8, g));
}

constexpr std::uint32_t unit_of(PayloadKind kind, std::uint64_t key8, std::int64_t g) {
  return kind == PayloadKind::bytes ? bytes_unit(key8, g) : numeric_unit(key8, g);
}

/// The channel of row h of w2 that holds 1.0 in round q of payload `exact`: (h + q H) mod I.
constexpr std::int64_t exact_channel(std::int64_t row, std::int64_t round, const Widths& widths) {
  return (row + round * widths.hidden) % widths.intermediate;
}

/// Rounds of payload `exact` that reach every channel of w2: ceil(I / H).
constexpr std::int64_t exact_rounds(const Widths& widths) {
  return (widths.intermediate + widths.hidden - 1) / widths.hidden;
}

/// Word j (16 codes) of w2 in payload `exact`: zero but for code 2 (1.0) at the row's channel.
constexpr std::uint64_t exact_word(std::int64_t j, std::int64_t round, const Widths& widths) {
  const std::int64_t row_words = widths.intermediate / word_codes;
  const std::int64_t row = j / row_words;
  const std::int64_t channel = exact_channel(row, round, widths) - j % row_words * word_codes;
  if (channel < 0 || channel >= word_codes) return 0;
  return std::uint64_t{2} << (4 * channel);
}

/// Word j of a projection's weights, key being word_key() of it.
constexpr std::uint64_t weight_word(const Payload& payload, std::uint64_t key,
                                    Projection projection, std::int64_t j, const Widths& widths) {
  if (payload.kind == PayloadKind::exact && projection == Projection::w2) {
    return exact_word(j, payload.round, widths);
  }
  return weight_word(key, j);
}

/// The byte that the payload puts at a place of a plain expert of these widths.
constexpr std::uint8_t payload_byte(const Payload& payload, std::int64_t expert,
                                    const PlainPlace& place, const Widths& widths) {
  const Matrix plain = plain_matrix(place.projection, place.scale, widths);
  const std::int64_t at = place.row * plain.row_bytes + place.byte;
  if (place.scale) {
    const std::int64_t g = scale_unit(expert, place.projection, at / unit_bytes, widths);
    const std::uint32_t unit = unit_of(payload.kind, scale_key(payload.seed), g);
    return static_cast<std::uint8_t>(unit >> (8 * (at % unit_bytes)));
  }
  const std::uint64_t key = word_key(payload.seed, expert, word_kind(place.projection));
  const std::uint64_t word = weight_word(payload, key, place.projection, at / word_bytes, widths);
  return static_cast<std::uint8_t>(word >> (8 * (at % word_bytes)));
}

/// The bits of u 2^exponent with u = 1 + (word j of kind 7 of the expert >> 41) 2^-23.
constexpr std::uint32_t scalar_bits(std::uint64_t seed, std::int64_t expert, std::int64_t j,
                                    int exponent) {
  const std::uint64_t mantissa = weight_word(word_key(seed, expert, 7), j) >> 41;
  return static_cast<std::uint32_t>(127 + exponent) << 23 | static_cast<std::uint32_t>(mantissa);
}

/// 8 + floor(log2(width) / 2): the binary order by which a weight scale shrinks with its width.
constexpr int scale_order(std::int64_t width) {
  return 8 + (static_cast<int>(std::bit_width(static_cast<std::uint64_t>(width))) - 1) / 2;
}

inline constexpr int a13_exponent = -8;  // a13 = 2^-8, so a1_gscale = 2^8
inline constexpr int a2_exponent = -4;   // a2 = 2^-4, so a2_gscale = 2^4

static_assert(scale_order(640) == 12 && scale_order(128) == 11 && scale_order(4096) == 14);

}  // namespace slicecheck::layout
