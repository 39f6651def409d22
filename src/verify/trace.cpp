#include "verify/trace.h"

#include <algorithm>

namespace slicecheck::verify {
namespace {

using layout::PayloadKind;
using layout::Projection;

// The inverse of an odd number modulo 2^64: each step of Newton doubles the right bits.
constexpr std::uint64_t inverse64(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t gamma_inverse = inverse64(layout::golden_gamma);
static_assert(gamma_inverse * layout::golden_gamma == 1);
constexpr std::uint32_t unit_step = 0x9E3779B9U;
constexpr auto unit_step_inverse = static_cast<std::uint32_t>(inverse64(unit_step));
static_assert(unit_step_inverse * unit_step == 1);

constexpr std::uint64_t inverse_modulo(std::uint64_t value, std::uint64_t modulus) {
  std::int64_t a = static_cast<std::int64_t>(value % modulus);
  std::int64_t b = static_cast<std::int64_t>(modulus);
  std::int64_t x = 1;
  std::int64_t y = 0;
  while (b != 0) {
    const std::int64_t q = a / b;
    const std::int64_t rest = a - q * b;
    const std::int64_t next = x - q * y;
    a = b;
    b = rest;
    x = y;
    y = next;
  }
  const auto m = static_cast<std::int64_t>(modulus);
  return static_cast<std::uint64_t>((x % m + m) % m);
}

constexpr std::uint64_t range = layout::numeric_range;
constexpr std::uint64_t numeric_inverse = inverse_modulo(layout::numeric_step, range);
static_assert(numeric_inverse * (layout::numeric_step % range) % range == 1);

// The four bytes of a numeric unit as its number v, or nothing where a byte is not 1 to 126.
std::optional<std::uint64_t> numeric_value(std::uint32_t unit) {
  std::uint64_t v = 0;
  for (int i = 3; i >= 0; --i) {
    const std::uint64_t digit = (unit >> (8 * i) & 0xFFU) - 1;
    if (digit >= layout::numeric_values) return {};
    v = v * layout::numeric_values + digit;
  }
  return v;
}

std::uint64_t hash_of(bool scale, const std::uint8_t* at) {
  return layout::mix64(scale ? load<std::uint32_t>(at) : load<std::uint64_t>(at));
}

constexpr std::int64_t unit_size(bool scale) {
  return scale ? layout::unit_bytes : layout::word_bytes;
}

}  // namespace

std::uint64_t unmixed64(std::uint64_t x) {
  constexpr std::uint64_t first = inverse64(0xBF58476D1CE4E5B9U);
  constexpr std::uint64_t second = inverse64(0x94D049BB133111EBU);
  x = (x ^ (x >> 31) ^ (x >> 62)) * second;
  x = (x ^ (x >> 27) ^ (x >> 54)) * first;
  return x ^ (x >> 30) ^ (x >> 60);
}

std::uint32_t unmixed32(std::uint32_t x) {
  constexpr auto first = static_cast<std::uint32_t>(inverse64(0x85EBCA6BU));
  constexpr auto second = static_cast<std::uint32_t>(inverse64(0xC2B2AE35U));
  x = (x ^ (x >> 16)) * second;
  x = (x ^ (x >> 13) ^ (x >> 26)) * first;
  return x ^ (x >> 16);
}

std::uint64_t seed_of_word(std::uint64_t word, std::int64_t expert, Projection projection,
                           std::int64_t j) {
  const std::uint64_t key =
      unmixed64(word) - (static_cast<std::uint64_t>(j) + 1) * layout::golden_gamma;
  const std::uint64_t number =
      16 * static_cast<std::uint64_t>(expert) + layout::word_kind(projection);
  return unmixed64(key) ^ (number * layout::golden_gamma);
}

std::optional<std::uint64_t> scale_key_of_unit(std::uint32_t unit, std::int64_t g,
                                               PayloadKind kind) {
  const std::uint64_t number = static_cast<std::uint64_t>(g) + 1;
  if (kind == PayloadKind::bytes) {
    return static_cast<std::uint32_t>(unmixed32(unit) -
                                      static_cast<std::uint32_t>(number) * unit_step);
  }
  const std::optional<std::uint64_t> v = numeric_value(unit);
  if (!v) return {};
  return (*v + range - number % range * (layout::numeric_step % range) % range) % range;
}

std::uint64_t scale_key_rest(std::uint64_t seed, PayloadKind kind) {
  const std::uint64_t key8 = layout::scale_key(seed);
  return kind == PayloadKind::bytes ? static_cast<std::uint32_t>(key8) : key8 % range;
}

Origin Tracer::origin_of(std::int64_t expert, Projection projection, bool scale,
                         std::int64_t j) const {
  const layout::Widths widths = reference_.data_widths();
  const layout::Matrix plain = layout::plain_matrix(projection, scale, widths);
  const std::int64_t at = j * unit_size(scale);
  Origin made{expert, {projection, scale, at / plain.row_bytes, at % plain.row_bytes}, {}};
  if (reference_.payload()) made.seed = reference_.payload()->seed;
  return made;
}

std::vector<Origin> Tracer::weight_by_rule(std::uint64_t word) const {
  const layout::Payload& payload = *reference_.payload();
  const layout::Widths widths = reference_.data_widths();
  const auto words =
      static_cast<std::uint64_t>(widths.hidden * widths.intermediate / layout::word_codes);
  const std::uint64_t sum = unmixed64(word);
  std::vector<Origin> made;
  for (std::int64_t expert = 0; expert < reference_.layer().shape.experts; ++expert) {
    for (const Projection projection : layout::projections) {
      // Word j is mix64(key + (j + 1) G): j follows from the key.
      const std::uint64_t key =
          layout::word_key(payload.seed, expert, layout::word_kind(projection));
      const std::uint64_t j = (sum - key) * gamma_inverse - 1;
      if (j >= words) continue;
      if (payload.kind == PayloadKind::exact && projection == Projection::w2) continue;
      made.push_back(origin_of(expert, projection, false, static_cast<std::int64_t>(j)));
    }
  }
  return made;
}

std::vector<Origin> Tracer::scale_by_rule(std::uint32_t unit) const {
  const layout::Payload& payload = *reference_.payload();
  const std::uint64_t rest = scale_key_rest(payload.seed, payload.kind);
  std::uint64_t g = 0;
  if (payload.kind == PayloadKind::bytes) {
    g = static_cast<std::uint32_t>((unmixed32(unit) - static_cast<std::uint32_t>(rest)) *
                                   unit_step_inverse) -
        std::uint64_t{1};
  } else {
    const std::optional<std::uint64_t> v = numeric_value(unit);
    if (!v) return {};
    g = ((*v + range - rest) % range * numeric_inverse + range - 1) % range;
  }
  const std::int64_t units = layout::scale_units(reference_.data_widths());
  const auto number = static_cast<std::int64_t>(g);
  if (number < 0 || number >= 3 * reference_.layer().shape.experts * units) return {};
  const auto projection = static_cast<Projection>(number / units % 3);
  return {origin_of(number / units / 3, projection, true, number % units)};
}

void Tracer::add(bool scale, const ByteVector& bytes, std::uint64_t place) {
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(bytes.size()); at += unit_size(scale)) {
    const std::uint64_t key = hash_of(scale, bytes.data() + at);
    if (key % stride_[scale] != 0) continue;
    const auto j = static_cast<std::uint64_t>(at / unit_size(scale));
    index_[scale].push_back({key, place << 32 | j});
  }
}

void Tracer::build() {
  const layout::Shape& shape = reference_.layer().shape;
  const std::int64_t elements = 3 * shape.experts * shape.hidden * shape.intermediate;
  stride_[0] = static_cast<std::uint64_t>(elements / 16 / (entries_max / 2) + 1);
  stride_[1] = static_cast<std::uint64_t>(elements / 64 / (entries_max / 2) + 1);
  for (std::int64_t expert = 0; expert < shape.experts; ++expert) {
    const experts::PlainExpert& whole = reference_.whole(expert);
    for (const Projection projection : layout::projections) {
      const experts::PlainProjection& from = experts::projection_of(whole, projection);
      const auto place =
          static_cast<std::uint64_t>(3 * expert + static_cast<std::int64_t>(projection));
      add(false, from.weight, place);
      add(true, from.scale, place);
    }
  }
  for (auto& index : index_) {
    std::stable_sort(index.begin(), index.end(),
                     [](const Entry& a, const Entry& b) { return a.key < b.key; });
  }
}

Origin Tracer::origin_of(std::uint64_t place, bool scale) const {
  const auto owner = static_cast<std::int64_t>(place >> 32);
  const auto projection = static_cast<Projection>(owner % 3);
  const layout::Widths widths = layout::stock_widths(reference_.layer().shape);
  const layout::Matrix plain = layout::plain_matrix(projection, scale, widths);
  const auto at = static_cast<std::int64_t>(place & 0xFFFFFFFFU) * unit_size(scale);
  return {owner / 3, {projection, scale, at / plain.row_bytes, at % plain.row_bytes}, {}};
}

std::vector<Origin> Tracer::origins(bool scale, const std::uint8_t* at) {
  if (reference_.payload()) {
    return scale ? scale_by_rule(load<std::uint32_t>(at)) : weight_by_rule(load<std::uint64_t>(at));
  }
  if (stride_[0] == 0) build();
  constexpr std::size_t found_max = 8;
  const std::uint64_t key = hash_of(scale, at);
  std::vector<Origin> made;
  auto entry = std::lower_bound(index_[scale].begin(), index_[scale].end(), key,
                                [](const Entry& e, std::uint64_t k) { return e.key < k; });
  for (; entry != index_[scale].end() && entry->key == key && made.size() < found_max; ++entry) {
    made.push_back(origin_of(entry->place, scale));
  }
  return made;
}

bool Tracer::left_out(bool scale, const std::uint8_t* at) {
  if (reference_.payload()) return false;
  if (stride_[0] == 0) build();
  return hash_of(scale, at) % stride_[scale] != 0;
}

}  // namespace slicecheck::verify
