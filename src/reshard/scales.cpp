#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cmath>

#include "reshard/majority.h"
#include "reshard/reshard.h"

namespace slicecheck::reshard {
namespace {

// The bits of a1_gscale and a2_gscale.
using GlobalBits = std::array<std::uint32_t, 2>;

constexpr std::array<std::string_view, 2> global_names{"a1_gscale", "a2_gscale"};

std::vector<float> values(const Tensor& tensor, memory::Space& space) {
  std::vector<float> made(count(tensor.extents));
  space.download({reinterpret_cast<std::uint8_t*>(made.data()), made.size() * sizeof(float)},
                 tensor.data.get());
  return made;
}

std::string text(float value) {
  return fmt::format("{} (0x{:08x})", value, std::bit_cast<std::uint32_t>(value));
}

/// What keeps a value from being a finite positive normal number; empty when nothing does.
std::string_view flaw(float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return "infinite";
  if (value == 0) return "zero";
  if (value < 0) return "negative";
  return std::isnormal(value) ? "" : "denormal";
}

Reason flawed(std::string_view name, float value) {
  const std::string_view why = flaw(value);
  if (why.empty()) return {};
  return Reason(
      fmt::format("{} is {}: {}, expected a finite positive normal number", name, why, text(value)),
      "scale-not-finite-positive");
}

Reason flawed_global(const GlobalBits& bits) {
  for (std::size_t i = 0; i < bits.size(); ++i) {
    Reason reason = flawed(global_names[i], std::bit_cast<float>(bits[i]));
    if (reason) return reason;
  }
  return {};
}

/// Why this rank's bits are not those of most ranks; the same sentence on every rank of the
/// minority.
Reason differing(const std::vector<GlobalBits>& all, int rank) {
  for (std::size_t i = 0; i < global_names.size(); ++i) {
    std::vector<std::uint32_t> bits;
    for (const GlobalBits& each : all) bits.push_back(each[i]);
    const std::uint32_t most = majority(bits);
    if (bits[rank] == most) continue;
    std::vector<std::string> held;
    for (const int other : minority(bits, most)) {
      held.push_back(fmt::format("rank {} has {}", other, text(std::bit_cast<float>(bits[other]))));
    }
    return Reason(
        fmt::format("the experts' global input scales differ across ranks: {} is {}, but "
                    "{}",
                    global_names[i], text(std::bit_cast<float>(most)), fmt::join(held, ", ")),
        "input-scale-differs-across-ranks");
  }
  return {};
}

}  // namespace

Reason check_global_scales(const experts::StockExperts& stock, group::Group& group) {
  const GlobalBits mine{
      std::bit_cast<std::uint32_t>(values(stock.a1_gscale, group.space()).front()),
      std::bit_cast<std::uint32_t>(values(stock.a2_gscale, group.space()).front())};
  const std::vector<GlobalBits> all = shared(group, mine);
  const bool sound = std::all_of(all.begin(), all.end(), [](const GlobalBits& bits) {
    return !static_cast<bool>(flawed_global(bits));
  });
  return sound ? differing(all, group.rank()) : flawed_global(mine);
}

Reason not_finite_positive(const experts::StockExperts& stock, memory::Space& space) {
  for (const auto& [name, tensor] :
       {std::pair{global_names[0], &stock.a1_gscale}, {global_names[1], &stock.a2_gscale}}) {
    Reason reason = flawed(name, values(*tensor, space).front());
    if (reason) return reason;
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    const std::vector<float> held = values(experts::tensor_of(stock, scalar), space);
    for (std::size_t i = 0; i < held.size(); ++i) {
      const std::int64_t expert = stock.first_expert + static_cast<std::int64_t>(i);
      Reason reason =
          flawed(fmt::format("{} of expert {}", experts::name(scalar), expert), held[i]);
      if (reason) return reason;
    }
  }
  return {};
}

}  // namespace slicecheck::reshard
