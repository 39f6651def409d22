#include "properties/generators/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/json.h"

namespace slicecheck::properties {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view case_format = "slicecheck-case/1";
constexpr std::array<std::string_view, fault_count> fault_names{
    "none",           "dtype",          "extents",     "strides",       "uneven",     "slice-width",
    "hidden-width",   "other-shape",    "other-total", "placement",     "scale-bits", "scale-zero",
    "scale-denormal", "scale-negative", "scale-nan",   "scale-infinite"};

constexpr std::array<std::string_view, placement_count> placement_names{
    "linear", "permuted", "duplicated", "rank-lies", "round-robin"};
constexpr std::array<std::string_view, format_count> format_names{"modelopt", "compressed-tensors",
                                                                  "fused"};
constexpr std::array<std::string_view, routes_count> routes_names{"covering", "skewed", "without",
                                                                  "all-to-one"};
constexpr std::array<std::string_view, scales_count> scales_names{"per-expert", "equal"};
constexpr std::array<std::string_view, plant_count> plant_names{"none",
                                                                "gate-up-swapped",
                                                                "gate-up-concatenated",
                                                                "rows-not-shuffled",
                                                                "rows-shuffled-twice",
                                                                "rows-shuffled-inverse",
                                                                "rows-shuffled-by-16",
                                                                "converted-twice",
                                                                "not-converted",
                                                                "scales-linear",
                                                                "scales-interleaved-twice",
                                                                "scales-8x4",
                                                                "scale-rows-not-shuffled",
                                                                "nibbles-swapped",
                                                                "flat-cut",
                                                                "cut-before-interleave",
                                                                "wrong-axis-cut",
                                                                "wrong-slice/shifted",
                                                                "wrong-slice/reversed",
                                                                "wrong-slice/transposed",
                                                                "permutation-of-other-shape",
                                                                "never-written",
                                                                "bit-corruption",
                                                                "payload-of-other-layer",
                                                                "unexplained",
                                                                "expert-mixed",
                                                                "block-scale-invalid",
                                                                "reciprocal-scale",
                                                                "scale-dropped",
                                                                "scale-not-finite-positive",
                                                                "stale-derived-scalar",
                                                                "scalar-rounding",
                                                                "scalars-misordered",
                                                                "scalars-not-gathered"};

// 1, 2 and "3+": a map that works for one tile and for two may still mix up the rest.
std::string counted(std::string_view what, std::int64_t count) {
  return count < 3 ? fmt::format("{} {}", what, count) : fmt::format("{} 3+", what);
}

template <typename Enum>
Result<Enum> named(const std::string& text, int count) {
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return Reason(fmt::format("\"{}\" is no name that a case may hold", text));
}

// The members of a case by their paths. The first that is not there, or another thing, is the
// reason; what is read behind it says nothing.
class Members {
 public:
  explicit Members(const checkpoint::JsonValue& from) : from_(from) {}

  const Reason& reason() const { return reason_; }

  std::uint64_t number(std::string_view path) {
    const checkpoint::JsonValue* value = at(path);
    const std::uint64_t* number = value == nullptr ? nullptr : value->whole();
    if (number == nullptr) wrong(path, "is no whole number from 0 on");
    return number == nullptr ? 0 : *number;
  }

  std::int64_t whole(std::string_view path) {
    const std::uint64_t read = number(path);
    const bool fits = std::in_range<std::int64_t>(read);
    if (!fits) wrong(path, "is no number that a case may hold");
    return fits ? static_cast<std::int64_t>(read) : 0;
  }

  std::string text(std::string_view path) {
    const checkpoint::JsonValue* value = at(path);
    const std::string* text = value == nullptr ? nullptr : value->text();
    if (text == nullptr) wrong(path, "is no text");
    return text == nullptr ? std::string() : *text;
  }

  bool has(std::string_view path) const { return at(path) != nullptr; }

  template <typename Enum>
  Enum one_of(std::string_view path, int count) {
    const Result<Enum> made = named<Enum>(text(path), count);
    if (made.reason) wrong(path, made.reason.text());
    return made.reason ? Enum() : *made;
  }

  void wrong(std::string_view path, std::string_view why) {
    if (!reason_) reason_ = Reason(fmt::format("{}: {}", path, why));
  }

 private:
  const checkpoint::JsonValue* at(std::string_view path) const {
    const checkpoint::JsonValue* value = &from_;
    while (value != nullptr && !path.empty()) {
      const std::size_t end = std::min(path.find('.'), path.size());
      value = value->find(path.substr(0, end));
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    return value;
  }

  const checkpoint::JsonValue& from_;
  Reason reason_;
};

// A member that stands in a case only where it is not its enum's first.
template <typename Enum>
void take(Members& from, std::string_view member, int count, Enum& into) {
  if (from.has(member)) into = from.one_of<Enum>(member, count);
}

void take_plant(Members& from, std::int64_t& plant) {
  if (!from.has("plant")) return;
  const std::string text = from.text("plant");
  const auto at = std::find(plant_names.begin(), plant_names.end(), text);
  if (at == plant_names.end()) {
    from.wrong("plant", fmt::format("\"{}\" is no name that a case may hold", text));
  } else {
    plant = at - plant_names.begin();
  }
}

// What a reader can trust afterwards: a layer that can be cut as the laws cut it, small enough to
// run, and a fault that has a place in it. What is not to be cut is made of such a layer by a law.
Reason out_of_range(const Case& given) {
  const layout::Shape& shape = given.shape;
  constexpr std::int64_t most = 1 << 16;
  constexpr std::int64_t elements_max = std::int64_t{1} << 26;
  for (const std::int64_t number :
       {shape.experts, shape.hidden, shape.intermediate, shape.tp, given.again}) {
    if (number < 1 || number > most) {
      return Reason(fmt::format("{} is not in [1, {}]", number, most));
    }
  }
  if (shape.tp > 64 || shape.experts % shape.tp != 0) {
    return Reason(fmt::format("{} experts over {} ranks cannot be run", shape.experts, shape.tp));
  }
  layout::Shape finest = shape;
  finest.tp = shape.tp * given.again;
  if (Reason reason = layout::unsupported(finest)) return Reason("shape: " + reason.text());
  if (shape.experts * shape.hidden * shape.intermediate > elements_max) {
    return Reason("the layer is larger than a case may be");
  }
  if (given.fault_rank < 0 || given.fault_rank >= shape.tp || given.fault_tensor < 0) {
    return Reason("fault_rank or fault_tensor is out of range");
  }
  if (given.fault_expert < 0 || given.fault_expert >= shape.experts) {
    return Reason("fault_expert is out of range");
  }
  return {};
}

Result<SavedCase> read(Members& from) {
  if (from.text("format") != case_format) {
    return Reason(fmt::format("the format is not {}", case_format));
  }
  SavedCase saved;
  saved.law = from.text("law");
  Case& given = saved.given;
  given.shape = {from.whole("shape.experts"), from.whole("shape.hidden"),
                 from.whole("shape.intermediate"), from.whole("shape.tp")};
  given.payload = {from.one_of<layout::PayloadKind>("payload.kind", 3), from.number("payload.seed"),
                   0};
  given.again = from.whole("again");
  given.fault = from.one_of<Fault>("fault.what", fault_count);
  given.fault_rank = from.whole("fault.rank");
  given.fault_tensor = from.whole("fault.tensor");
  if (from.has("fault.expert")) given.fault_expert = from.whole("fault.expert");
  take(from, "placement", placement_count, given.placement);
  take(from, "checkpoint", format_count, given.format);
  take(from, "routes", routes_count, given.routes);
  take(from, "scales", scales_count, given.scales);
  take_plant(from, given.plant);
  if (from.reason()) return from.reason();
  if (Reason reason = out_of_range(given)) return reason;
  return saved;
}

}  // namespace

std::string_view name(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }
std::string_view name(Placement placement) {
  return placement_names[static_cast<std::size_t>(placement)];
}
std::string_view name(Format format) { return format_names[static_cast<std::size_t>(format)]; }
std::string_view name(Routes routes) { return routes_names[static_cast<std::size_t>(routes)]; }
std::string_view name(Scales scales) { return scales_names[static_cast<std::size_t>(scales)]; }
std::string_view plant_name(std::int64_t plant) { return plant_names.at(plant); }

std::string json(const SavedCase& saved) {
  const Case& given = saved.given;
  ordered_json made;
  made["format"] = case_format;
  made["law"] = saved.law;
  made["shape"] = {{"experts", given.shape.experts},
                   {"hidden", given.shape.hidden},
                   {"intermediate", given.shape.intermediate},
                   {"tp", given.shape.tp}};
  made["payload"] = {{"kind", layout::name(given.payload.kind)}, {"seed", given.payload.seed}};
  made["again"] = given.again;
  made["fault"] = {
      {"what", name(given.fault)}, {"rank", given.fault_rank}, {"tensor", given.fault_tensor}};
  if (given.fault_expert != 0) made["fault"]["expert"] = given.fault_expert;
  if (given.placement != Placement::linear) made["placement"] = name(given.placement);
  if (given.format != Format::modelopt) made["checkpoint"] = name(given.format);
  if (given.routes != Routes::covering) made["routes"] = name(given.routes);
  if (given.scales != Scales::per_expert) made["scales"] = name(given.scales);
  if (given.plant != 0) made["plant"] = plant_name(given.plant);
  return made.dump();
}

Result<SavedCase> parsed(std::string_view text) {
  const Result<checkpoint::JsonValue> tree = checkpoint::json_of(text);
  if (tree.reason) return tree.reason;
  Members members(*tree);
  return read(members);
}

std::string text(const Case& given) {
  std::string made =
      fmt::format("E {}, H {}, I {}, tp {}, payload {} of seed {}", given.shape.experts,
                  given.shape.hidden, given.shape.intermediate, given.shape.tp,
                  layout::name(given.payload.kind), given.payload.seed);
  if (given.again > 1) made += fmt::format(", cut again {} ways", given.again);
  if (given.fault != Fault::none) {
    made += fmt::format(", fault {} on rank {} at tensor {}", name(given.fault), given.fault_rank,
                        given.fault_tensor);
  }
  if (given.placement != Placement::linear) {
    made += fmt::format(", placement {} by rank {}", name(given.placement), given.fault_rank);
  }
  if (given.format != Format::modelopt) made += fmt::format(", checkpoint {}", name(given.format));
  if (given.routes != Routes::covering) made += fmt::format(", routes {}", name(given.routes));
  if (given.scales != Scales::per_expert) made += fmt::format(", scales {}", name(given.scales));
  if (given.plant != 0) {
    made +=
        fmt::format(", {} planted on rank {} at tensor {} of expert {}", plant_name(given.plant),
                    given.fault_rank, given.fault_tensor, given.fault_expert);
  }
  return made;
}

std::string class_of(const Case& given, Dimension dimension) {
  const layout::Shape& shape = given.shape;
  switch (dimension) {
    case Dimension::tp:
      return fmt::format("tp {}", shape.tp);
    case Dimension::hidden_tiles:
      return counted("H tiles", shape.hidden / 128);
    case Dimension::slice_tiles:
      return counted("I' tiles", shape.slice() / 64);
    case Dimension::experts_per_rank:
      return counted("Er", shape.experts_per_rank());
    case Dimension::payload:
      return std::string(layout::name(given.payload.kind));
    case Dimension::again:
      return fmt::format("again {}", given.again);
    case Dimension::fault:
      return std::string(name(given.fault));
    case Dimension::placement:
      return std::string(name(given.placement));
    case Dimension::format:
      return std::string(name(given.format));
    case Dimension::routes:
      return std::string(name(given.routes));
    case Dimension::scales:
      return std::string(name(given.scales));
    case Dimension::plant:
      break;
  }
  return std::string(plant_name(given.plant));
}

std::vector<std::string> classes(Dimension dimension, const Limits& limits) {
  std::vector<std::string> made;
  const auto counts = [&](std::string_view what, std::int64_t most) {
    for (std::int64_t i = 1; i <= std::min<std::int64_t>(most, 3); ++i) {
      made.push_back(counted(what, i));
    }
  };
  switch (dimension) {
    case Dimension::tp:
      for (int tp = 2; tp <= limits.tp; ++tp) made.push_back(fmt::format("tp {}", tp));
      break;
    case Dimension::hidden_tiles:
      counts("H tiles", limits.hidden_tiles);
      break;
    case Dimension::slice_tiles:
      counts("I' tiles", limits.slice_tiles);
      break;
    case Dimension::experts_per_rank:
      counts("Er", limits.experts_per_rank);
      break;
    case Dimension::payload:
      made = {"bytes", "numeric", "exact"};
      break;
    case Dimension::again:
      made = {"again 2", "again 3"};
      break;
    case Dimension::fault:
      for (int i = 1; i < fault_count; ++i) made.emplace_back(name(static_cast<Fault>(i)));
      break;
    case Dimension::placement:
      made.assign(placement_names.begin() + 1, placement_names.end());
      break;
    case Dimension::format:
      made.assign(format_names.begin(), format_names.end());
      break;
    case Dimension::routes:
      made.assign(routes_names.begin(), routes_names.end());
      break;
    case Dimension::scales:
      made.assign(scales_names.begin(), scales_names.end());
      break;
    case Dimension::plant:
      made.assign(plant_names.begin() + 1, plant_names.end());
      break;
  }
  return made;
}

}  // namespace slicecheck::properties
