// A reason is a value: why something cannot be done, in one sentence that carries the numbers. It
// is found locally, agreed over the group, and only then acted upon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace slicecheck {

/// Where among the experts a reason was found, as far as that is known; numbers from 0, -1 where it
/// is not.
struct Where {
  std::string side;    // as findings name it: stock, tp, checkpoint, probe, machine
  std::string tensor;  // that the reason is about
  std::int64_t rank = -1;
  std::int64_t expert = -1;
  std::int64_t layer = -1;
  std::int64_t group = -1;
  bool operator==(const Where&) const = default;
};

/// Why something cannot be done, in one sentence (lower case, no full stop); or nothing.
/// `if (reason)` reads "if there is a reason to refuse". `cause` is the finding's name in the
/// catalogue of faults where there is one, else empty.
class [[nodiscard]] Reason {
 public:
  Reason() = default;
  explicit Reason(std::string text, std::string_view cause = {}, Where where = {})
      : text_(std::move(text)), cause_(cause), where_(std::move(where)) {}

  explicit operator bool() const { return text_.has_value(); }
  const std::string& text() const { return text_.value(); }
  const std::string& cause() const { return cause_; }
  const Where& where() const { return where_; }

  /// The same reason, or none, of a layer and group that whoever found it did not know.
  Reason at_layer(std::int64_t layer, std::int64_t group = -1) const {
    Reason made = *this;
    made.where_.layer = layer;
    made.where_.group = group;
    return made;
  }

 private:
  std::optional<std::string> text_;
  std::string cause_;
  Where where_;
};

/// A value, or the reason why there is none. `if (result.reason)` comes before `*result`.
template <typename T>
struct [[nodiscard]] Result {
  Result(T made) : value(std::move(made)) {}      // NOLINT(google-explicit-constructor)
  Result(Reason why) : reason(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  T& operator*() { return *value; }
  const T& operator*() const { return *value; }
  T* operator->() { return &*value; }
  const T* operator->() const { return &*value; }

  Reason reason;
  std::optional<T> value;
};

}  // namespace slicecheck
