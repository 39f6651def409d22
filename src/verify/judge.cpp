#include "verify/judge.h"

#include <algorithm>
#include <tuple>

#include "base/must.h"
#include "verify/other_widths.h"

namespace slicecheck::verify {
namespace {

constexpr double map_share = 0.9;  // of the differing bytes, that a map beside other damage gives

Differing subset(const Differing& all, Bytes due, std::vector<std::uint32_t> at) {
  return {all.got, due, std::move(at)};
}

bool histogram_kept(const Differing& differing) {
  std::array<std::int64_t, 256> counts{};
  for (const std::uint32_t at : differing.at) {
    ++counts[differing.got[at]];
    --counts[differing.due[at]];
  }
  return std::all_of(counts.begin(), counts.end(), [](std::int64_t n) { return n == 0; });
}

// True when the same offsets of every row differ.
bool same_in_every_row(const Differing& differing, std::int64_t row_bytes) {
  const auto rows = static_cast<std::int64_t>(differing.got.size()) / row_bytes;
  const auto count = static_cast<std::int64_t>(differing.at.size());
  if (rows < 2 || count == 0 || count % rows != 0) return false;
  const std::int64_t each = count / rows;
  for (std::int64_t i = 0; i < count; ++i) {
    if (differing.at[i] != differing.at[i % each] + i / each * row_bytes) return false;
  }
  return true;
}

bool all_padding(const Case& layer, const Target& target, const Differing& differing) {
  return layer.data && std::all_of(differing.at.begin(), differing.at.end(),
                                   [&](auto at) { return is_padding(layer, target, at); });
}

WrongTensor opened(const Case& layer, const Target& target, const Differing& differing) {
  WrongTensor made;
  made.target = target;
  made.map = healthy_map(target);
  made.bytes = static_cast<std::int64_t>(differing.got.size());
  made.differing = static_cast<std::int64_t>(differing.at.size());
  made.first = differing.at.front();
  made.last = differing.at.back();
  made.histogram_kept = histogram_kept(differing);
  made.same_in_every_row = same_in_every_row(
      differing, layout::matrix(target.kind, widths_of(layer, target.side)).row_bytes);
  made.digest = digest(differing.got);
  made.pattern = digest({reinterpret_cast<const std::uint8_t*>(differing.at.data()),
                         differing.at.size() * sizeof(std::uint32_t)});
  return made;
}

}  // namespace

Differing differing_of(Bytes got, Bytes due) {
  must(got.size() == due.size(), "a tensor of another size than what is due");
  Differing made{got, due, {}};
  constexpr std::size_t step = 64;
  for (std::size_t from = 0; from < got.size(); from += step) {
    const std::size_t count = std::min(step, got.size() - from);
    if (std::memcmp(got.data() + from, due.data() + from, count) == 0) continue;
    for (std::size_t at = from; at < from + count; ++at) {
      if (got[at] != due[at]) made.at.push_back(static_cast<std::uint32_t>(at));
    }
  }
  return made;
}

std::optional<WrongTensor> Judge::judged(const Target& target, Bytes got) {
  const Case& layer = reference_.layer();
  const ByteVector due =
      mapped(layer, target, healthy_map(target), reference_.whole(target.expert));
  if (got.size() == due.size() && std::memcmp(got.data(), due.data(), due.size()) == 0) return {};
  const Differing differing = differing_of(got, due);
  WrongTensor made = opened(layer, target, differing);
  const bool scales_judged =
      !reference_.payload() || reference_.payload()->kind != layout::PayloadKind::bytes;

  if (all_padding(layer, target, differing)) {
    made.causes.add(Cause::padding_dirty);
    made.explained = made.differing;
    if (other_widths(reference_, target, got)) made.alternatives.add(Cause::padding_misplaced);
  } else {
    explain(made, differing, scales_judged);
  }
  if (made.causes.has(Cause::unexplained) && !reference_.payload()) {
    made.twin = twin_of(target, differing);
  }
  say_first(made, differing);
  return made;
}

// A map that gives all; bytes never written; another payload; a drift; a map beside other damage;
// else what can be said of the bytes themselves.
void Judge::explain(WrongTensor& made, const Differing& differing, bool scales_judged) {
  std::optional<Found> found = best_map(made.target, differing);
  const bool exact = found && found->unexplained == 0;
  // Where all bytes are still there, none was left unwritten.
  const auto [constant, rest] =
      made.histogram_kept ? std::pair(Differing{differing.got, differing.due, {}}, differing)
                          : never_written_split(differing);
  const bool unwritten = !constant.at.empty() && rest.at.empty();
  // Several deviations that end in the same constant bytes are chance.
  const bool chance = unwritten && found && found->causes.count() > 1;
  if (exact && found->missed == 0 && !chance) {
    return accept(made, *found, differing, scales_judged);
  }
  const std::optional<layout::Widths> widths = other_widths(reference_, made.target, differing.got);
  if (unwritten) {
    made.causes.add(Cause::never_written);
    if (widths) made.alternatives.add(Cause::padding_misplaced);
    made.value = differing.got[constant.at.front()];
    made.explained = made.differing;
    return;
  }
  if (widths) {
    made.causes.add(Cause::padding_misplaced);
    made.data = *widths;
    made.explained = made.differing;
    return;
  }
  // What such a map does not give is judged against the map: it may move zeros, too.
  if (found) return accept(made, *found, differing, scales_judged);
  if (!constant.at.empty()) found = best_map(made.target, rest);
  const bool mapped = found && found->unexplained == 0;
  // A scale shifted by a constant looks like one of another seed: the drift is tried first.
  if (!mapped && (drifted(made, differing) || other_payload(made, differing))) return;
  if (!constant.at.empty()) {
    made.causes.add(Cause::never_written);
    made.value = differing.got[constant.at.front()];
    made.beside = static_cast<std::int64_t>(constant.at.size());
    made.explained = made.beside;
  }
  if (found) return accept(made, *found, rest, scales_judged);
  say_unmapped(made, rest, scales_judged);
}

void Judge::accept(WrongTensor& made, const Found& found, const Differing& differing,
                   bool scales_judged) {
  made.map = found.map;
  made.alternatives =
      made.causes.count() == 0 && found.causes.count() == 1 ? found.alternatives : Causes{};
  made.causes = made.causes.either(found.causes);
  made.explained += static_cast<std::int64_t>(differing.at.size()) - found.unexplained;
  if (found.unexplained == 0) return;
  std::vector<std::uint32_t> left;
  for (const std::uint32_t at : differing.at) {
    if (differing.got[at] != found.bytes[at]) left.push_back(at);
  }
  const Differing residue = subset(differing, found.bytes, std::move(left));
  const auto [constant, rest] = never_written_split(residue);
  if (!constant.at.empty()) {
    made.causes.add(Cause::never_written);
    made.value = residue.got[constant.at.front()];
    made.explained += static_cast<std::int64_t>(constant.at.size());
  }
  if (!rest.at.empty()) say_unmapped(made, rest, scales_judged);
}

std::vector<std::int64_t> Judge::candidate_experts(const Target& target,
                                                   const Differing& differing) {
  const bool scale = layout::is_scale(target.kind);
  const std::size_t unit = scale ? 4 : 8;
  std::vector<std::pair<int, std::int64_t>> votes;
  const auto vote = [&](const std::uint8_t* at) {
    for (const Origin& origin : tracer_.origins(scale, at)) {
      const auto found = std::find_if(votes.begin(), votes.end(),
                                      [&](const auto& v) { return v.second == origin.expert; });
      if (found == votes.end()) {
        votes.emplace_back(1, origin.expert);
      } else {
        ++found->first;
      }
    }
  };
  constexpr std::size_t samples = 32;
  constexpr std::size_t tries = 512;  // of an index that leaves units out
  for (std::size_t i = 0; i < samples; ++i) {
    std::size_t at = differing.at[i * differing.at.size() / samples] / unit * unit;
    for (std::size_t n = 0; n < tries && at + unit <= differing.got.size(); ++n, at += unit) {
      if (tracer_.left_out(scale, differing.got.data() + at)) continue;
      vote(differing.got.data() + at);
      if (!scale) {
        std::array<std::uint8_t, 8> swapped{};
        std::transform(differing.got.begin() + static_cast<std::ptrdiff_t>(at),
                       differing.got.begin() + static_cast<std::ptrdiff_t>(at + 8), swapped.begin(),
                       [](std::uint8_t b) { return static_cast<std::uint8_t>(b << 4 | b >> 4); });
        vote(swapped.data());
      }
      break;
    }
  }
  std::stable_sort(votes.begin(), votes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::int64_t> made{target.expert};
  constexpr std::size_t experts_max = 4;
  for (const auto& [count, expert] : votes) {
    if (expert != target.expert && (count > 1 || !scale)) made.push_back(expert);
    if (made.size() == experts_max) break;
  }
  return made;
}

namespace {

// Offsets at which a map is first tried: spread over what differs and, where that is little, over
// what does not differ too, for a few bytes fit some map by chance.
struct Samples {
  std::vector<std::uint32_t> differing;
  std::vector<std::uint32_t> equal;
};

constexpr std::size_t few_bytes = 256;

Samples samples_of(const Differing& differing) {
  Samples made;
  constexpr std::size_t count = 48;
  const std::size_t n = std::min(count, differing.at.size());
  for (std::size_t i = 0; i < n; ++i) {
    made.differing.push_back(differing.at[i * differing.at.size() / n]);
  }
  if (differing.at.size() >= few_bytes) return made;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint32_t>((2 * i + 1) * differing.got.size() / (2 * count));
    if (differing.got[at] == differing.due[at]) made.equal.push_back(at);
  }
  return made;
}

// True when `byte_at` gives four fifths of the samples; ends early where the first ones miss.
template <typename ByteAt>
bool fits(const std::vector<std::uint32_t>& samples, Bytes got, const ByteAt& byte_at) {
  std::size_t hits = 0;
  std::size_t misses = 0;
  for (const std::uint32_t at : samples) {
    ++(byte_at(at) == got[at] ? hits : misses);
    if (misses > hits + 2 || misses * 5 > samples.size() + 5) return false;
  }
  return misses * 5 <= samples.size();
}

}  // namespace

const std::vector<Map>& Judge::healthy_maps(const Target& target) {
  std::vector<Map>& maps = maps_[static_cast<int>(target.side)][static_cast<int>(target.kind)];
  if (maps.empty()) maps = deviations(reference_.layer(), target);
  return maps;
}

// The maps of a target's own expert and slice that deviate in at most two steps.
std::vector<Map> Judge::maps_of(const Target& target) {
  std::vector<Map> made;
  const Map healthy = healthy_map(target);
  for (Map map : healthy_maps(target)) {
    map.expert = healthy.expert;
    map.slice = healthy.slice;
    if (causes_of(target, map).count() <= 2) made.push_back(map);
  }
  return made;
}

std::vector<Map> Judge::candidates(const Target& target, const Differing& differing) {
  const Case& layer = reference_.layer();
  const std::vector<Map>& maps = healthy_maps(target);
  const Samples samples = samples_of(differing);
  const std::int64_t slices = target.side == Side::tp ? layer.shape.tp : 1;
  const Map healthy = healthy_map(target);
  std::vector<std::pair<Map, int>> made;
  for (const std::int64_t expert : candidate_experts(target, differing)) {
    const experts::PlainExpert& whole = reference_.whole(expert);
    const auto consider = [&](const Map& map) {
      const auto byte_at = [&](std::uint32_t at) {
        return mapped_byte(layer, target, map, whole, at);
      };
      if (!fits(samples.differing, differing.got, byte_at)) return;
      if (!fits(samples.equal, differing.got, byte_at)) return;
      made.emplace_back(map, causes_of(target, map).count());
    };
    for (Map map : maps) {
      // Halves of two slices are looked for where nothing else is wrong.
      map.expert = healthy.expert;
      map.slice = healthy.slice;
      const bool halves = layout::is_w13(target.kind) && map == healthy;
      map.expert = expert;
      for (map.slice = 0; map.slice < slices; ++map.slice) {
        for (map.gate_ahead = 0; map.gate_ahead < (halves ? slices : 1); ++map.gate_ahead) {
          consider(map);
        }
      }
    }
  }
  // Halves of two slices are less likely than anything else that is one cause.
  std::stable_sort(made.begin(), made.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second, a.first.gate_ahead > 0) <
           std::make_pair(b.second, b.first.gate_ahead > 0);
  });
  std::vector<Map> sorted;
  for (const auto& [map, cost] : made) sorted.push_back(map);
  return sorted;
}

std::optional<Judge::Found> Judge::tried(const Target& target, const Map& map,
                                         const Differing& differing) {
  Found found{map, causes_of(target, map), {}, {}, 0, 0};
  found.bytes = mapped(reference_.layer(), target, map, reference_.whole(map.expert));
  for (const std::uint32_t at : differing.at) {
    found.unexplained += found.bytes[at] != differing.got[at];
  }
  for (std::size_t at = 0; at < found.bytes.size(); ++at) {
    found.missed += found.bytes[at] != differing.got[at];
  }
  // What fits a few bytes must fit the whole tensor.
  if (differing.at.size() < few_bytes && found.missed > 0) return {};
  return found;
}

// The least unexplained; a map of the whole tensor before one of a part of it; the fewest causes.
std::optional<Judge::Found> Judge::best_map(const Target& target, const Differing& differing) {
  constexpr int builds_max = 48;
  // A few bytes more or less are chance where there is other damage.
  const auto share = [&](const Found& found) {
    const auto count = static_cast<std::int64_t>(differing.at.size());
    return found.unexplained * 256 / count + (found.unexplained > 0);
  };
  const auto worth = [&](const Found& found) {
    return std::make_tuple(share(found), found.missed > 0, found.causes.count(),
                           found.map.gate_ahead > 0, found.missed, found.unexplained);
  };
  std::optional<Found> best;
  int builds = 0;
  for (const Map& map : candidates(target, differing)) {
    const Causes causes = causes_of(target, map);
    if (causes.count() == 0) continue;
    if (best && best->missed == 0 && causes.count() > best->causes.count()) break;
    if (++builds > builds_max) break;
    std::optional<Found> found = tried(target, map, differing);
    if (!found) continue;
    if (best && worth(*found) == worth(*best)) {
      if (causes != best->causes) best->alternatives = best->alternatives.either(causes);
    } else if (!best || worth(*found) < worth(*best)) {
      best = std::move(found);
    }
  }
  if (!best) return {};
  const auto count = static_cast<double>(differing.at.size());
  if (static_cast<double>(best->unexplained) > (1 - map_share) * count) return {};
  return best;
}

}  // namespace slicecheck::verify
