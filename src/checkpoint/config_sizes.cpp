#include "checkpoint/config_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::int64_t size_max = std::int64_t{1} << 40;

bool holds_any(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

bool is_count(std::string_view name) { return name.starts_with("num_") || name.starts_with("n_"); }

bool may_be_hidden(std::string_view name) {
  return holds_any(name, {"hidden", "latent", "emb", "d_model", "dim", "width"});
}

bool may_be_intermediate(std::string_view name) {
  return !is_count(name) && !holds_any(name, {"shared"}) &&
         holds_any(name, {"intermediate", "ffn", "mlp", "moe", "expert", "inner", "width"});
}

// A field beside `num_local_experts` and `intermediate_size` from which experts may have theirs.
bool is_of_experts(std::string_view name) {
  return !is_count(name) && holds_any(name, {"moe", "expert"}) &&
         holds_any(name, {"size", "dim", "inter", "ffn", "ratio", "mult", "factor"});
}

std::optional<std::int64_t> size_in(const JsonValue& value) {
  const std::uint64_t* whole = value.whole();
  if (whole == nullptr || *whole == 0 || *whole > size_max) return {};
  return static_cast<std::int64_t>(*whole);
}

// Every number of `value`, which stands under `name`, and of all inside it: a list's numbers go by
// the list's name.
void gather(const JsonValue& value, std::string_view name, ConfigSizes& sizes) {
  if (value.object() != nullptr) {
    for (const JsonMember& member : *value.object()) {
      gather(member.value, lower(member.name), sizes);
    }
  }
  if (value.array() != nullptr) {
    for (const JsonValue& entry : *value.array()) gather(entry, name, sizes);
  }
  const std::optional<std::int64_t> size = size_in(value);
  if (!size) return;
  if (may_be_hidden(name)) sizes.hidden_like.insert(*size);
  if (may_be_intermediate(name)) sizes.intermediate_like.insert(*size);
}

std::optional<ConfigSize> size_of(const JsonValue& object, std::string_view name,
                                  const std::string& where) {
  const JsonValue* value = object.find(name);
  const std::optional<std::int64_t> size =
      value == nullptr ? std::optional<std::int64_t>() : size_in(*value);
  if (!size) return {};
  return ConfigSize{*size, fmt::format("{}: {}", where, name)};
}

std::optional<ConfigSize> intermediate_of(const JsonValue& object, const std::string& where) {
  std::optional<ConfigSize> made = size_of(object, "moe_intermediate_size", where);
  if (made || object.find("num_local_experts") == nullptr) return made;
  const bool others =
      std::any_of(object.object()->begin(), object.object()->end(),
                  [](const JsonMember& member) { return is_of_experts(lower(member.name)); });
  return others ? made : size_of(object, "intermediate_size", where);
}

// The least multiple from `size` on.
bool is_padded(std::int64_t size, std::int64_t padded) {
  constexpr std::array<std::int64_t, 7> multiples{16, 32, 64, 128, 256, 512, 1024};
  return std::any_of(multiples.begin(), multiples.end(), [&](std::int64_t multiple) {
    return padded == (size + multiple - 1) / multiple * multiple;
  });
}

}  // namespace

ConfigSizes sizes_of(const JsonValue& tree, const std::string& file) {
  ConfigSizes made;
  gather(tree, "", made);
  const JsonValue* inner = tree.find("text_config");
  const bool nested = inner != nullptr && inner->object() != nullptr;
  if (nested) {
    const std::string where = file + ": text_config";
    made.hidden = size_of(*inner, "hidden_size", where);
    made.intermediate = intermediate_of(*inner, where);
  }
  if (!made.hidden) made.hidden = size_of(tree, "hidden_size", file);
  if (!made.intermediate && tree.object() != nullptr) {
    made.intermediate = intermediate_of(tree, file);
  }
  return made;
}

ContrarySizes contrary_sizes(const ConfigSizes& sizes, const layout::Widths& widths,
                             const std::string& root) {
  ContrarySizes made;
  const auto judge = [&](const std::optional<ConfigSize>& said,
                         const std::unordered_set<std::int64_t>& like, std::string_view letter,
                         std::int64_t is) {
    if (!said || like.contains(is)) return;
    const std::string text = fmt::format("{}: is {}, but the experts of {} have {} {}", said->field,
                                         said->value, in_quotes(root), letter, is);
    if (is_padded(said->value, is)) {
      made.padded.emplace_back(text + ", as where they were padded", refused_cause);
    } else {
      made.wrong.emplace_back(text, refused_cause);
    }
  };
  judge(sizes.hidden, sizes.hidden_like, "H", widths.hidden);
  judge(sizes.intermediate, sizes.intermediate_like, "I", widths.intermediate);
  return made;
}

}  // namespace slicecheck::checkpoint
