#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <set>

#include "checkpoint/in_quotes.h"
#include "checkpoint/json.h"

namespace slicecheck::checkpoint {
namespace {

// Products of three such stay below 2^63.
constexpr std::uint64_t count_max = std::uint64_t{1} << 20;
constexpr std::uint64_t seed_max = ~std::uint64_t{0};

// Reads whole numbers out of an object and keeps the first reason why one is wrong.
class Fields {
 public:
  explicit Fields(const JsonValue& object) : object_(object) {}

  std::optional<std::int64_t> count(std::string_view name, std::uint64_t least) {
    const JsonValue* value = object_.find(name);
    if (value == nullptr || value->null()) return {};
    const std::uint64_t* whole = value->whole();
    if (whole != nullptr && *whole >= least && *whole <= count_max) {
      return static_cast<std::int64_t>(*whole);
    }
    refuse(fmt::format("{}: is not a whole number from {} to {}", name, least, count_max));
    return {};
  }

  std::int64_t required(std::string_view name) {
    const std::optional<std::int64_t> value = count(name, 1);
    if (!value) refuse(fmt::format("{}: is missing", name));
    return value.value_or(1);
  }

  const std::string* text(std::string_view name) {
    const JsonValue* value = object_.find(name);
    if (value == nullptr) return nullptr;
    if (value->text() == nullptr) refuse(fmt::format("{}: is not a string", name));
    return value->text();
  }

  const JsonValue* find(std::string_view name) const { return object_.find(name); }
  void refuse(std::string text) {
    if (!reason_) reason_ = Reason(std::move(text));
  }
  const Reason& reason() const { return reason_; }

 private:
  const JsonValue& object_;
  Reason reason_;
};

std::optional<layout::PayloadKind> payload_kind(std::string_view text) {
  using layout::PayloadKind;
  for (const PayloadKind kind : {PayloadKind::bytes, PayloadKind::numeric, PayloadKind::exact}) {
    if (layout::name(kind) == text) return kind;
  }
  return {};
}

std::optional<layout::Payload> payload_of(Fields& fields) {
  const JsonValue* value = fields.find("payload");
  if (value == nullptr || value->null()) return {};
  const JsonValue* kind = value->find("kind");
  const JsonValue* seed = value->find("seed");
  const std::string* text = kind == nullptr ? nullptr : kind->text();
  const std::optional<layout::PayloadKind> known =
      text == nullptr ? std::nullopt : payload_kind(*text);
  if (!known) {
    fields.refuse("payload: kind is none of bytes, numeric, exact");
    return {};
  }
  if (seed == nullptr || seed->whole() == nullptr) {
    fields.refuse(fmt::format("payload: seed is not a whole number up to {}", seed_max));
    return {};
  }
  return layout::Payload{*known, *seed->whole(), 0};
}

Reason unequal_groups(const Manifest& manifest) {
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (std::size_t r = 0; r < manifest.ranks.size(); ++r) {
    const GroupRank& at = manifest.ranks[r];
    if (at.group >= manifest.world / manifest.shape.tp || at.rank >= manifest.shape.tp) {
      return Reason(fmt::format("ranks: rank {} is {} of group {}, expected {} groups of {}", r,
                                at.rank, at.group, manifest.world / manifest.shape.tp,
                                manifest.shape.tp));
    }
    if (!seen.emplace(at.group, at.rank).second) {
      return Reason(fmt::format("ranks: rank {} of group {} stands twice", at.rank, at.group));
    }
  }
  return {};
}

std::vector<GroupRank> ranks_of(Fields& fields, std::int64_t world, std::int64_t tp) {
  const JsonValue* value = fields.find("ranks");
  if (value == nullptr || value->null()) return consecutive_groups(world, tp);
  const JsonValue::Array* entries = value->array();
  if (entries == nullptr || static_cast<std::int64_t>(entries->size()) != world) {
    fields.refuse(fmt::format("ranks: is not an array of {} ranks", world));
    return {};
  }
  std::vector<GroupRank> made;
  for (const JsonValue& entry : *entries) {
    Fields one(entry);
    const std::optional<std::int64_t> group = one.count("group", 0);
    const std::optional<std::int64_t> rank = one.count("rank", 0);
    if (!group || !rank) {
      fields.refuse(fmt::format("ranks: entry {} has no whole group and rank", made.size()));
      return {};
    }
    made.push_back({*group, *rank});
  }
  return made;
}

Reason contradiction(const Manifest& manifest) {
  const layout::Shape& shape = manifest.shape;
  if (manifest.world % shape.tp != 0) {
    return Reason(fmt::format("tp: {} ranks are no groups of {}", manifest.world, shape.tp));
  }
  if (manifest.plain.hidden > shape.hidden) {
    return Reason(
        fmt::format("hidden_plain: is {}, hidden is {}", manifest.plain.hidden, shape.hidden));
  }
  if (manifest.plain.intermediate > shape.intermediate) {
    return Reason(fmt::format("intermediate_plain: is {}, intermediate is {}",
                              manifest.plain.intermediate, shape.intermediate));
  }
  // A block scale covers 16 elements: data cannot end inside one.
  for (const auto& [name, value] : {std::pair("hidden_plain", manifest.plain.hidden),
                                    std::pair("intermediate_plain", manifest.plain.intermediate)}) {
    if (value % layout::sf_vec != 0 && value != shape.hidden && value != shape.intermediate) {
      return Reason(
          fmt::format("{}: is {}, expected a multiple of {}", name, value, layout::sf_vec));
    }
  }
  if (manifest.top_k && *manifest.top_k > shape.experts) {
    return Reason(fmt::format("top_k: is {} of {} experts", *manifest.top_k, shape.experts));
  }
  return unequal_groups(manifest);
}

}  // namespace

std::vector<GroupRank> consecutive_groups(std::int64_t world, std::int64_t tp) {
  std::vector<GroupRank> made;
  for (std::int64_t r = 0; r < world; ++r) made.push_back({r / tp, r % tp});
  return made;
}

Result<Manifest> manifest_of(std::string_view text) {
  const Result<JsonValue> tree = json_of(text);
  if (tree.reason) return tree.reason;
  if (tree->object() == nullptr) return Reason("is not an object");
  Fields fields(*tree);
  const std::string* format = fields.text("format");
  if (format == nullptr || *format != dump_format) {
    return Reason(fmt::format("format: is {}, expected '{}'",
                              format == nullptr ? "missing" : in_quotes(*format), dump_format));
  }
  Manifest made;
  made.world = fields.required("world");
  made.shape = {fields.required("experts"), fields.required("hidden"),
                fields.required("intermediate"), 0};
  made.shape.tp = fields.count("tp", 1).value_or(made.world);
  const std::string* engine = fields.text("engine");
  if (engine == nullptr) fields.refuse("engine: is missing");
  made.engine = engine == nullptr ? "" : *engine;
  made.layer = fields.count("layer", 0);
  made.payload = payload_of(fields);
  made.tokens = fields.count("tokens", 1);
  made.top_k = fields.count("top_k", 1);
  made.plain = {fields.count("hidden_plain", 1).value_or(made.shape.hidden),
                fields.count("intermediate_plain", 1).value_or(made.shape.intermediate)};
  made.ranks = ranks_of(fields, made.world, made.shape.tp);
  if (fields.reason()) return fields.reason();
  Reason reason = contradiction(made);
  if (reason) return reason;
  return made;
}

std::string manifest_text(const Manifest& manifest) {
  const layout::Shape& shape = manifest.shape;
  std::string made = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"world\": {},\n  \"experts\": {},\n  \"hidden\": {},\n"
      "  \"intermediate\": {},\n  \"engine\": {}",
      dump_format, manifest.world, shape.experts, shape.hidden, shape.intermediate,
      json_text(manifest.engine));
  const auto field = [&made](std::string_view name, std::int64_t value) {
    made += fmt::format(",\n  \"{}\": {}", name, value);
  };
  if (shape.tp != manifest.world) field("tp", shape.tp);
  if (manifest.layer) field("layer", *manifest.layer);
  if (manifest.payload) {
    made += fmt::format(",\n  \"payload\": {{\"kind\": \"{}\", \"seed\": {}}}",
                        layout::name(manifest.payload->kind), manifest.payload->seed);
  }
  if (manifest.tokens) field("tokens", *manifest.tokens);
  if (manifest.top_k) field("top_k", *manifest.top_k);
  if (manifest.plain.hidden != shape.hidden) field("hidden_plain", manifest.plain.hidden);
  if (manifest.plain.intermediate != shape.intermediate) {
    field("intermediate_plain", manifest.plain.intermediate);
  }
  if (manifest.ranks != consecutive_groups(manifest.world, shape.tp)) {
    std::string entries;
    for (const GroupRank& at : manifest.ranks) {
      entries += fmt::format("{}{{\"group\": {}, \"rank\": {}}}", entries.empty() ? "" : ", ",
                             at.group, at.rank);
    }
    made += fmt::format(",\n  \"ranks\": [{}]", entries);
  }
  return made + "\n}\n";
}

}  // namespace slicecheck::checkpoint
