// A reason is a value: why something cannot be done, in one sentence that carries the numbers. It
// is found locally, agreed over the group, and only then acted upon.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace slicecheck {

/// Why something cannot be done, in one sentence (lower case, no full stop); or nothing.
/// `if (reason)` reads "if there is a reason to refuse". `cause` is the finding's name in the
/// catalogue of faults where there is one, else empty.
class [[nodiscard]] Reason {
 public:
  Reason() = default;
  explicit Reason(std::string text, std::string_view cause = {})
      : text_(std::move(text)), cause_(cause) {}

  explicit operator bool() const { return text_.has_value(); }
  const std::string& text() const { return text_.value(); }
  const std::string& cause() const { return cause_; }

 private:
  std::optional<std::string> text_;
  std::string cause_;
};

/// A value, or the reason why there is none. `if (result.reason)` comes before `*result`.
template <typename T>
struct [[nodiscard]] Result {
  Result(T made) : value(std::move(made)) {}            // NOLINT(google-explicit-constructor)
  Result(Reason why) : reason(std::move(why)) {}        // NOLINT(google-explicit-constructor)

  T& operator*() { return *value; }
  const T& operator*() const { return *value; }
  T* operator->() { return &*value; }
  const T* operator->() const { return &*value; }

  Reason reason;
  std::optional<T> value;
};

}  // namespace slicecheck
