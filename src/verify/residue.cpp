// What can be said of bytes that no map of rows explains.
#include <algorithm>
#include <bit>

#include "verify/judge.h"

namespace slicecheck::verify {
namespace {

constexpr std::size_t constant_run = 64;

bool is_invalid_scale(std::uint8_t byte) { return (byte & 0x80U) != 0 || byte == 0x7F; }

template <typename Predicate>
bool every(const Differing& differing, const Predicate& predicate) {
  return std::all_of(differing.at.begin(), differing.at.end(), predicate);
}

bool saturated(const Differing& differing) {
  const auto count = std::count(differing.got.begin(), differing.got.end(), 0x7E);
  return count * 50 > static_cast<std::ptrdiff_t>(differing.got.size()) &&
         every(differing, [&](auto at) { return differing.got[at] == 0x7E; });
}

bool kept_histogram(const Differing& differing) {
  std::array<std::int64_t, 256> counts{};
  for (const std::uint32_t at : differing.at) {
    ++counts[differing.got[at]];
    --counts[differing.due[at]];
  }
  return std::all_of(counts.begin(), counts.end(), [](std::int64_t n) { return n == 0; });
}

// Few bytes, or single bits of not too many.
bool corrupted(const Differing& differing) {
  const std::size_t count = differing.at.size();
  const std::size_t few = std::max(constant_run, differing.got.size() / 64);
  if (count >= 8 && kept_histogram(differing)) return false;
  if (count <= few) return true;
  std::size_t bits = 0;
  for (const std::uint32_t at : differing.at) {
    bits += static_cast<std::size_t>(
        std::popcount(static_cast<unsigned>(differing.got[at] ^ differing.due[at])));
  }
  return 2 * bits <= 3 * count && 4 * count <= differing.got.size();
}

// The one xor of all differing bytes, or 0.
std::uint8_t common_xor(const Differing& differing) {
  const std::uint32_t front = differing.at.front();
  const int first = differing.got[front] ^ differing.due[front];
  const bool same =
      every(differing, [&](auto at) { return (differing.got[at] ^ differing.due[at]) == first; });
  return same ? static_cast<std::uint8_t>(first) : std::uint8_t{0};
}

}  // namespace

std::pair<Differing, Differing> never_written_split(const Differing& differing) {
  Differing constant{differing.got, differing.due, {}};
  Differing rest{differing.got, differing.due, {}};
  const Bytes got = differing.got;
  std::size_t next = 0;  // of differing.at
  std::size_t from = 0;
  while (next < differing.at.size()) {
    // The run that holds the next differing byte, or starts before it.
    from = differing.at[next];
    while (from > 0 && got[from - 1] == got[differing.at[next]]) --from;
    std::size_t to = differing.at[next];
    while (to < got.size() && got[to] == got[from]) ++to;
    std::size_t end = next;
    while (end < differing.at.size() && differing.at[end] < to) ++end;
    const bool whole = to - from == got.size();
    const bool run = to - from >= constant_run && (whole || 2 * (end - next) >= to - from);
    Differing& side = run ? constant : rest;
    side.at.insert(side.at.end(), differing.at.begin() + static_cast<std::ptrdiff_t>(next),
                   differing.at.begin() + static_cast<std::ptrdiff_t>(end));
    next = end;
  }
  return {constant, rest};
}

void say_unmapped(WrongTensor& made, const Differing& differing, bool scales_judged) {
  const bool scale = layout::is_scale(made.target.kind) && scales_judged;
  const auto explain = [&](Cause cause) {
    made.causes.add(cause);
    made.explained += static_cast<std::int64_t>(differing.at.size());
    made.beside += static_cast<std::int64_t>(differing.at.size());
  };
  if (scale && every(differing, [&](auto at) { return is_invalid_scale(differing.got[at]); })) {
    explain(Cause::block_scale_invalid);
    if (differing.at.size() <= constant_run) made.alternatives.add(Cause::bit_corruption);
  } else if (scale && saturated(differing)) {
    explain(Cause::block_scale_saturated);
  } else if (corrupted(differing)) {
    explain(Cause::bit_corruption);
    made.value = common_xor(differing);
  } else {
    made.causes.add(Cause::unexplained);
  }
}

}  // namespace slicecheck::verify
