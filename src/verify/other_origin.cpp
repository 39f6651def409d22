// Bytes of another payload (a layer, a seed), bytes shifted by a drifting stride, and the origin of
// the first wrong byte.
#include <algorithm>
#include <cstring>

#include "verify/judge.h"

namespace slicecheck::verify {
namespace {

// Offsets of a few whole units that differ, each once: one unit alone would agree with itself.
std::vector<std::int64_t> unit_offsets(const Differing& differing, std::int64_t unit,
                                       std::size_t tried_units) {
  std::vector<std::int64_t> made;
  const std::size_t count = differing.at.size();
  for (std::size_t i = 0; i < tried_units; ++i) {
    made.push_back(differing.at[(2 * i + 1) * count / (2 * tried_units)] / unit * unit);
  }
  made.erase(std::unique(made.begin(), made.end()), made.end());
  return made;
}

// The number of the unit at a place of the data, or nothing in the padding.
std::optional<std::int64_t> unit_number(const layout::PlainPlace& place, const layout::Widths& data,
                                        std::int64_t unit) {
  const layout::Matrix matrix = layout::plain_matrix(place.projection, place.scale, data);
  if (place.row >= matrix.rows || place.byte >= matrix.row_bytes) return {};
  const std::int64_t at = place.row * matrix.row_bytes + place.byte;
  return at % unit == 0 ? std::optional(at / unit) : std::nullopt;
}

// The seed that names a scale key: another layer of this run, or a small seed.
std::optional<std::uint64_t> seed_of_scale_key(std::uint64_t rest, const layout::Payload& payload) {
  constexpr std::uint64_t tried = 4096;
  for (std::uint64_t i = 0; i < tried; ++i) {
    for (const std::uint64_t seed : {payload.seed ^ (i << 32), i}) {
      if (scale_key_rest(seed, payload.kind) == rest) return seed;
    }
  }
  return {};
}

std::uint64_t word_at(const Differing& differing, std::int64_t at, bool nibbles_swapped) {
  const auto word = load<std::uint64_t>(differing.got.data() + at);
  constexpr std::uint64_t low = 0x0F0F0F0F0F0F0F0FU;
  return nibbles_swapped ? (word & low) << 4 | (word >> 4 & low) : word;
}

}  // namespace

bool Judge::other_payload(WrongTensor& made, const Differing& differing) {
  if (!reference_.payload()) return false;
  if (layout::is_scale(made.target.kind)) return other_payload_scales(made, differing);
  const Case& layer = reference_.layer();
  const std::vector<std::int64_t> offsets = unit_offsets(differing, layout::word_bytes, 8);
  for (const Map& map : maps_of(made.target)) {
    std::vector<std::uint64_t> seeds;
    for (const std::int64_t at : offsets) {
      const auto place = source_of(layer, made.target, map, at);
      const auto j =
          place ? unit_number(*place, reference_.data_widths(), layout::word_bytes) : std::nullopt;
      if (!j) continue;
      const std::uint64_t word = word_at(differing, at, map.nibbles_swapped);
      seeds.push_back(seed_of_word(word, map.expert, place->projection, *j));
      if (seeds.back() != seeds.front()) break;
    }
    if (seeds.size() < 2 || seeds.back() != seeds.front()) continue;
    // A run of this payload's words that was moved looks like a run of another seed's.
    if (!tracer_.origins(false, differing.got.data() + offsets.front()).empty()) continue;
    const ByteVector bytes =
        mapped(layer, made.target, map, reference_.seeded(map.expert, seeds.front()));
    std::int64_t given = 0;
    for (const std::uint32_t at : differing.at) given += bytes[at] == differing.got[at];
    if (2 * given < made.differing) continue;
    made.map = map;
    made.causes = made.causes.either(causes_of(made.target, map));
    made.causes.add(Cause::payload_of_other_layer);
    made.seed = seeds.front();
    made.seed_known = true;
    made.explained = given;
    return true;
  }
  return false;
}

bool Judge::other_payload_scales(WrongTensor& made, const Differing& differing) {
  const Case& layer = reference_.layer();
  const layout::Payload& payload = *reference_.payload();
  const layout::Widths data = reference_.data_widths();
  const std::int64_t unit = layout::unit_bytes;
  const auto key_at = [&](const Map& map, std::int64_t at) -> std::optional<std::uint64_t> {
    const auto place = source_of(layer, made.target, map, at);
    const auto j = place ? unit_number(*place, data, unit) : std::nullopt;
    if (!j) return {};
    const std::int64_t g = layout::scale_unit(map.expert, place->projection, *j, data);
    return scale_key_of_unit(load<std::uint32_t>(differing.got.data() + at), g, payload.kind);
  };
  // A unit of this payload from the same matrix, or a neighbour's, was moved: a run of them looks
  // like another seed's.
  const auto moved = [&](const Map& map, std::int64_t at) {
    const auto place = source_of(layer, made.target, map, at);
    for (const Origin& one : tracer_.origins(true, differing.got.data() + at)) {
      if (place && std::abs(one.expert - map.expert) <= 1 &&
          one.place.projection == place->projection) {
        return true;
      }
    }
    return false;
  };
  const std::vector<std::int64_t> offsets = unit_offsets(differing, unit, 32);
  for (const Map& map : maps_of(made.target)) {
    std::vector<std::uint64_t> keys;
    for (const std::int64_t at : offsets) {
      const auto key = key_at(map, at);
      if (key) keys.push_back(*key);
      if (!keys.empty() && keys.back() != keys.front()) break;
    }
    if (keys.size() < 4 || keys.back() != keys.front()) continue;
    // Where a row of data ends inside a unit, the next row's units lie apart: they tell nothing.
    std::int64_t given = 0;
    std::int64_t told = 0;
    for (const std::uint32_t at : differing.at) {
      const auto key = key_at(map, at / unit * unit);
      told += key.has_value();
      given += key == keys.front();
    }
    if (2 * given < told || 4 * told < made.differing) continue;
    // Of this very payload the map alone would be the cause.
    if (keys.front() == scale_key_rest(payload.seed, payload.kind)) continue;
    const auto seed = seed_of_scale_key(keys.front(), payload);
    if (!seed && moved(map, offsets.front())) continue;
    made.map = map;
    made.causes = made.causes.either(causes_of(made.target, map));
    made.causes.add(Cause::payload_of_other_layer);
    made.seed = seed.value_or(keys.front());
    made.seed_known = seed.has_value();
    made.explained = given;
    return true;
  }
  return false;
}

namespace {

// A tensor of experts side by side as they are due, from expert `from` on: what a drift reads.
struct Around {
  ByteVector bytes;
  std::int64_t from = 0;  // slot of the first
  std::int64_t each = 0;  // bytes of an expert
  std::int64_t slots = 0;

  // The due byte at `at` of the whole tensor; nothing outside what is known of it.
  std::optional<std::uint8_t> at(std::int64_t at) const {
    const std::int64_t here = at - from * each;
    if (here < 0 || here >= static_cast<std::int64_t>(bytes.size())) return {};
    return bytes[here];
  }

  // What lies at `at` where experts are read `step` bytes further apart than they lie.
  std::optional<std::uint8_t> read(std::int64_t slot, std::int64_t at, std::int64_t step) const {
    return this->at(at + slot * step);
  }

  // What lies at `at` where experts were written `step` bytes further apart than they must lie, in
  // their order: between two of them is a gap, or the later one lies over the former.
  std::optional<std::uint8_t> written(std::int64_t at, std::int64_t step) const {
    const std::int64_t expert = std::min(at / (each + step), slots - 1);
    const std::int64_t in = at - expert * (each + step);
    return in < each ? this->at(expert * each + in) : std::nullopt;
  }
};

}  // namespace

// Experts read or written at another stride: each hit of a few bytes elsewhere in the tensor says
// one step for either, and that must give four fifths of what differs. What is read outside the
// tensor and what stands in a gap is anyone's.
bool Judge::drifted(WrongTensor& made, const Differing& differing) {
  const Case& layer = reference_.layer();
  const Target& target = made.target;
  const std::int64_t held = layer.shape.experts_per_rank();
  const std::int64_t low = target.side == Side::stock ? target.rank * held : 0;
  const std::int64_t slot = target.expert - low;
  Around around{{}, 0, made.bytes, target.side == Side::stock ? held : layer.shape.experts};
  around.from = std::max<std::int64_t>(0, slot - 2);
  for (std::int64_t e = around.from; e < std::min(around.slots, slot + 3); ++e) {
    const Target one{target.side, target.kind, target.rank, low + e};
    const ByteVector bytes = mapped(layer, one, healthy_map(one), reference_.whole(low + e));
    around.bytes.insert(around.bytes.end(), bytes.begin(), bytes.end());
  }
  std::int64_t best = 0;
  const auto consider = [&](std::int64_t off, std::int64_t experts, const auto& byte_at) {
    if (experts < 1 || off % experts != 0) return;
    const std::int64_t step = off / experts;
    if (step == 0 || 2 * std::abs(step) > made.bytes) return;
    std::int64_t given = 0;
    for (const std::uint32_t d : differing.at) {
      given += byte_at(slot * made.bytes + d, step).value_or(differing.got[d]) == differing.got[d];
    }
    if (5 * given < 4 * made.differing || given <= best) return;
    best = given;
    made.shift = step * slot;
  };
  constexpr std::int64_t needle = 24;
  for (int i = 1; i < 8 && slot > 0 && best < made.differing; ++i) {
    const std::int64_t at = std::min<std::int64_t>(
        differing.at[differing.at.size() * static_cast<std::size_t>(i) / 8], made.bytes - needle);
    if (at < 0) return false;
    const void* hit =
        memmem(around.bytes.data(), around.bytes.size(), differing.got.data() + at, needle);
    if (hit == nullptr) continue;
    const std::int64_t source =
        static_cast<const std::uint8_t*>(hit) - around.bytes.data() + around.from * made.bytes;
    const std::int64_t off = source - slot * made.bytes - at;
    consider(off, slot, [&](auto place, auto step) { return around.read(slot, place, step); });
    // What was written further apart is found as if read closer together.
    consider(off, source / made.bytes,
             [&](auto place, auto step) { return around.written(place, -step); });
  }
  if (best == 0) return false;
  made.causes.add(Cause::expert_offset_drift);
  made.explained = best;
  return true;
}

// The one other expert that has the same bytes here, by the reference; -1 where none or several do.
// Of a stock that is taken as true, one of the two is not itself.
std::int64_t Judge::twin_of(const Target& target, const Differing& differing) {
  const Bytes due = differing.due;
  const bool scale = layout::is_scale(target.kind);
  const std::size_t unit = scale ? layout::unit_bytes : layout::word_bytes;
  // Of a few units the rarest one: its places are fewest.
  std::vector<Origin> rarest;
  constexpr std::size_t tried = 64;
  for (std::size_t i = 0; i < tried; ++i) {
    std::vector<Origin> found =
        tracer_.origins(scale, due.data() + i * due.size() / tried / unit * unit);
    if (found.size() > 1 && (rarest.empty() || found.size() < rarest.size()))
      rarest = std::move(found);
  }
  std::int64_t twin = -1;
  for (const Origin& origin : rarest) {
    if (origin.expert == target.expert || origin.expert == twin) continue;
    Map map = healthy_map(target);
    map.expert = origin.expert;
    const ByteVector theirs =
        mapped(reference_.layer(), target, map, reference_.whole(origin.expert));
    if (!std::equal(due.begin(), due.end(), theirs.begin(), theirs.end())) continue;
    if (twin >= 0) return -1;
    twin = origin.expert;
  }
  return twin;
}

// The origin is the map's where a map explains the bytes; else it is traced. A scale's unit alone
// proves nothing: most of its neighbours must come from the same matrix.
void Judge::say_first(WrongTensor& made, const Differing& differing) {
  const auto first = static_cast<std::size_t>(made.first);
  const std::size_t shown = std::min<std::size_t>(16, differing.got.size() - first);
  made.shown = static_cast<std::uint8_t>(shown);
  std::copy_n(differing.got.begin() + made.first, shown, made.got.begin());
  std::copy_n(differing.due.begin() + made.first, shown, made.want.begin());
  const bool other = made.causes.has(Cause::payload_of_other_layer);
  const Causes deviations = causes_of(made.target, made.map);
  if (deviations.count() > 0 || other) {
    const auto place = source_of(reference_.layer(), made.target, made.map, made.first);
    if (!place) return;
    made.origin = {true, false, false, 0, made.map.expert, *place};
    if (other) {
      made.origin.has_seed = made.seed_known;
      made.origin.seed = made.seed;
    } else if (reference_.payload()) {
      made.origin.has_seed = true;
      made.origin.seed = reference_.payload()->seed;
    }
    return;
  }
  trace_first(made, differing);
}

void Judge::trace_first(WrongTensor& made, const Differing& differing) {
  const bool scale = layout::is_scale(made.target.kind);
  const std::int64_t unit = scale ? layout::unit_bytes : layout::word_bytes;
  const std::int64_t at = made.first / unit * unit;
  const std::vector<Origin> found = tracer_.origins(scale, differing.got.data() + at);
  if (found.empty()) return;
  bool agreed = found.size() == 1;
  if (scale && agreed) {
    int same = 0;
    for (std::int64_t n = at; n < at + 8 * unit && n + unit <= made.bytes; n += unit) {
      const std::vector<Origin> next = tracer_.origins(scale, differing.got.data() + n);
      same += next.size() == 1 && next[0].expert == found[0].expert &&
              next[0].place.projection == found[0].place.projection;
    }
    agreed = same >= 6;
  }
  made.origin = {
      agreed,          !agreed,       found[0].seed.has_value(), found[0].seed.value_or(0),
      found[0].expert, found[0].place};
  made.origin.place.byte += made.first - at;
}

}  // namespace slicecheck::verify
