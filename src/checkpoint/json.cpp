#include "checkpoint/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "checkpoint/file.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

constexpr std::int64_t tree_bytes_max = std::int64_t{16} << 20;

// Turns the library's events into ours and keeps what it does not: unique keys, bounded nesting.
class Adapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  bool null() override { return taken(events_.leaf(nullptr)); }
  bool boolean(bool value) override { return taken(events_.leaf(value)); }
  bool number_integer(std::int64_t value) override { return taken(events_.leaf(value)); }
  bool number_unsigned(std::uint64_t value) override { return taken(events_.leaf(value)); }
  bool number_float(double value, const std::string& /*text*/) override {
    return taken(events_.leaf(value));
  }
  bool string(std::string& value) override { return taken(events_.leaf(std::move(value))); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return opened('{'); }
  bool start_array(std::size_t /*size*/) override { return opened('['); }
  bool end_object() override { return closed(); }
  bool end_array() override { return closed(); }
  bool key(std::string& name) override {
    if (!keys_.back().insert(name).second) {
      return taken(Reason(fmt::format("key {} stands twice in one object", in_quotes(name))));
    }
    return taken(events_.key(std::move(name)));
  }
  bool parse_error(std::size_t at, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    constexpr int number_out_of_range = 406;
    const std::string_view what =
        error.id == number_out_of_range ? "a number out of range" : "not JSON";
    return taken(Reason(fmt::format("{} at byte {}", what, at)));
  }

  const Reason& reason() const { return reason_; }

 private:
  bool taken(Reason reason) {
    if (!reason) return true;
    if (!reason_) reason_ = std::move(reason);
    return false;
  }
  bool opened(char bracket) {
    if (keys_.size() == nesting_max) {
      return taken(Reason(fmt::format("nests deeper than {}", nesting_max)));
    }
    keys_.emplace_back();
    return taken(events_.opened(bracket));
  }
  bool closed() {
    keys_.pop_back();
    return taken(events_.closed());
  }

  JsonEvents& events_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open object or array
  Reason reason_;
};

class Tree : public JsonEvents {
 public:
  Reason opened(char bracket) override {
    JsonValue& made = place();
    if (bracket == '{') {
      made.value = JsonValue::Object{};
    } else {
      made.value = JsonValue::Array{};
    }
    open_.push_back(&made);
    return {};
  }
  Reason key(std::string name) override {
    std::get<JsonValue::Object>(open_.back()->value).push_back({std::move(name), {}});
    return {};
  }
  Reason leaf(JsonLeaf value) override {
    place().value = std::move(value);
    return {};
  }
  Reason closed() override {
    open_.pop_back();
    return {};
  }
  JsonValue take() { return std::move(root_); }

 private:
  // Where the next value goes. An open value never moves: its parent grows only after it is closed.
  JsonValue& place() {
    if (open_.empty()) return root_;
    auto* array = std::get_if<JsonValue::Array>(&open_.back()->value);
    if (array == nullptr) return std::get<JsonValue::Object>(open_.back()->value).back().value;
    return array->emplace_back();
  }

  JsonValue root_;
  std::vector<JsonValue*> open_;
};

}  // namespace

Reason read_json(std::string_view text, JsonEvents& events) {
  // The library takes a NUL for the end of the text and skips a byte order mark.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) return Reason(fmt::format("not JSON at byte {}", nul + 1));
  if (text.starts_with("\xEF\xBB\xBF")) return Reason("not JSON at byte 1");
  Adapter adapter(events);
  const bool read = nlohmann::json::sax_parse(text.begin(), text.end(), &adapter);
  if (read) return {};
  return adapter.reason() ? adapter.reason() : Reason("not JSON");
}

const JsonValue* JsonValue::find(std::string_view name) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  for (const JsonMember& member : *members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

Result<JsonValue> json_of(std::string_view text) {
  Tree tree;
  Reason reason = read_json(text, tree);
  if (reason) return reason;
  return tree.take();
}

Result<JsonValue> json_file(const std::string& path) {
  Result<std::string> text = text_of(path, tree_bytes_max);
  if (text.reason) return text.reason;
  Result<JsonValue> tree = json_of(*text);
  if (tree.reason) return Reason(fmt::format("{}: {}", shown(path), tree.reason.text()));
  return tree;
}

std::string json_text(std::string_view text) {
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  return nlohmann::json(text).dump(-1, ' ', true, replace);
}

}  // namespace slicecheck::checkpoint
