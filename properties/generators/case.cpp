#include "properties/generators/case.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace slicecheck::properties {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view format = "slicecheck-case/1";
constexpr std::array<std::string_view, fault_count> fault_names{
    "none",           "dtype",          "extents",     "strides",       "uneven",     "slice-width",
    "hidden-width",   "other-shape",    "other-total", "placement",     "scale-bits", "scale-zero",
    "scale-denormal", "scale-negative", "scale-nan",   "scale-infinite"};

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

// What a reader can trust afterwards: every number positive and small enough to run.
Reason out_of_range(const Case& given) {
  const layout::Shape& shape = given.shape;
  constexpr std::int64_t most = 1 << 16;
  for (const std::int64_t number :
       {shape.experts, shape.hidden, shape.intermediate, shape.tp, given.again}) {
    if (number < 1 || number > most) {
      return Reason(fmt::format("{} is not in [1, {}]", number, most));
    }
  }
  if (shape.tp > 64 || shape.experts % shape.tp != 0) {
    return Reason(fmt::format("{} experts over {} ranks cannot be run", shape.experts, shape.tp));
  }
  if (shape.experts * shape.hidden * shape.intermediate > (std::int64_t{1} << 32)) {
    return Reason("the layer is larger than a case may be");
  }
  if (given.fault_rank < 0 || given.fault_rank >= shape.tp || given.fault_tensor < 0) {
    return Reason("fault_rank or fault_tensor is out of range");
  }
  return {};
}

Result<SavedCase> read(const ordered_json& from) {
  if (from.at("format") != format) return Reason(fmt::format("the format is not {}", format));
  SavedCase saved;
  saved.law = from.at("law");
  Case& given = saved.given;
  const ordered_json& shape = from.at("shape");
  given.shape = {shape.at("experts"), shape.at("hidden"), shape.at("intermediate"), shape.at("tp")};
  const auto kind = named<layout::PayloadKind>(from.at("payload").at("kind"), 3);
  if (kind.reason) return kind.reason;
  given.payload = {*kind, from.at("payload").at("seed").get<std::uint64_t>(), 0};
  given.again = from.at("again");
  const auto fault = named<Fault>(from.at("fault").at("what"), fault_count);
  if (fault.reason) return fault.reason;
  given.fault = *fault;
  given.fault_rank = from.at("fault").at("rank");
  given.fault_tensor = from.at("fault").at("tensor");
  if (Reason reason = out_of_range(given)) return reason;
  return saved;
}

}  // namespace

std::string_view name(Fault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

std::string json(const SavedCase& saved) {
  const Case& given = saved.given;
  ordered_json made;
  made["format"] = format;
  made["law"] = saved.law;
  made["shape"] = {{"experts", given.shape.experts},
                   {"hidden", given.shape.hidden},
                   {"intermediate", given.shape.intermediate},
                   {"tp", given.shape.tp}};
  made["payload"] = {{"kind", layout::name(given.payload.kind)}, {"seed", given.payload.seed}};
  made["again"] = given.again;
  made["fault"] = {
      {"what", name(given.fault)}, {"rank", given.fault_rank}, {"tensor", given.fault_tensor}};
  return made.dump();
}

Result<SavedCase> parsed(std::string_view text) {
  try {  // the one boundary to the JSON library
    return read(ordered_json::parse(text));
  } catch (const nlohmann::json::exception& why) {
    return Reason(why.what());
  }
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
      break;
  }
  return std::string(name(given.fault));
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
  }
  return made;
}

}  // namespace slicecheck::properties
