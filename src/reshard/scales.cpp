#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cmath>

#include "base/majority.h"
#include "group/shared.h"
#include "reshard/reshard.h"
#include "reshard/steps.h"

namespace slicecheck::reshard {
namespace {

// The bits of a1_gscale and a2_gscale.
using GlobalBits = std::array<std::uint32_t, 2>;

constexpr std::array<std::string_view, 2> global_names{"a1_gscale", "a2_gscale"};

/// The values of F32 tensors, one after another, brought to the host in one transfer.
Result<std::vector<float>> values(const std::vector<const Tensor*>& tensors, memory::Space& space) {
  std::int64_t bytes = 0;
  for (const Tensor* tensor : tensors) bytes += tensor->bytes();
  auto room = space.allocate(bytes, "scalars in a row");
  if (room.reason) return room.reason;
  std::int64_t at = 0;
  for (const Tensor* tensor : tensors) {
    space.copy(room->get() + at, tensor->data.get(), tensor->bytes());
    at += tensor->bytes();
  }
  std::vector<float> made(bytes / size(Dtype::f32));
  space.download({reinterpret_cast<std::uint8_t*>(made.data()), made.size() * sizeof(float)},
                 room->get());
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

/// What is wrong with a scalar of one expert, or of all where none is given. The sentence is put
/// together only where something is: this runs once a scalar of each expert.
Reason flawed(std::string_view name, float value, std::int64_t expert = -1) {
  const std::string_view why = flaw(value);
  if (why.empty()) return {};
  const std::string whose = expert < 0 ? "" : fmt::format(" of expert {}", expert);
  return Reason(fmt::format("{}{} is {}: {}, expected a finite positive normal number", name, whose,
                            why, text(value)),
                "scale-not-finite-positive", {"stock", std::string(name), -1, expert});
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
        "input-scale-differs-across-ranks", {"stock", std::string(global_names[i])});
  }
  return {};
}

GlobalBits global_bits(const std::vector<float>& held) {
  return {std::bit_cast<std::uint32_t>(held[0]), std::bit_cast<std::uint32_t>(held[1])};
}

/// check_global_scales() of bits that are on the host. Collective.
Reason check_bits(const GlobalBits& mine, group::Group& group) {
  const std::vector<GlobalBits> all = group::shared(group, mine);
  const bool sound = std::all_of(all.begin(), all.end(), [](const GlobalBits& bits) {
    return !static_cast<bool>(flawed_global(bits));
  });
  return sound ? differing(all, group.rank()) : flawed_global(mine);
}

}  // namespace

Reason check_global_scales(const experts::StockExperts& stock, group::Group& group) {
  const Result<std::vector<float>> held =
      values({&stock.a1_gscale, &stock.a2_gscale}, group.space());
  // A rank that cannot read its scales takes part all the same.
  Reason reason = check_bits(held.reason ? GlobalBits{} : global_bits(*held), group);
  return held.reason ? held.reason : reason;
}

Reason check_global_scales(const std::vector<float>& row, group::Group& group) {
  return check_bits(global_bits(row), group);
}

Result<std::vector<float>> scales_in_a_row(const experts::StockExperts& stock,
                                           memory::Space& space) {
  std::vector<const Tensor*> tensors{&stock.a1_gscale, &stock.a2_gscale};
  for (const experts::Scalar scalar : experts::all_scalars) {
    tensors.push_back(&experts::tensor_of(stock, scalar));
  }
  return values(tensors, space);
}

Reason not_finite_positive(const experts::StockExperts& stock, const std::vector<float>& row) {
  Reason reason = flawed_global(global_bits(row));
  std::size_t at = global_names.size();
  for (const experts::Scalar scalar : experts::all_scalars) {
    for (std::int64_t i = 0; i < count(experts::tensor_of(stock, scalar).extents); ++i, ++at) {
      if (reason) return reason;
      reason = flawed(experts::name(scalar), row[at], stock.first_expert + i);
    }
  }
  return reason;
}

Reason not_finite_positive(const experts::StockExperts& stock, memory::Space& space) {
  const Result<std::vector<float>> row = scales_in_a_row(stock, space);
  return row.reason ? row.reason : not_finite_positive(stock, *row);
}

}  // namespace slicecheck::reshard
