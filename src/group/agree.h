// Refusal is a group act: a local reason becomes an agreed reason before anyone raises, so that no
// rank is left waiting in a collective. The one place that throws.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "base/reason.h"
#include "group/group.h"

namespace slicecheck::group {

/// A rank and why it refuses.
struct RankReason {
  int rank = 0;
  Reason reason;
};

/// Every refusing rank's reason, in rank order; empty when nobody refuses. The same on every rank.
struct Agreed {
  std::vector<RankReason> reasons;
  int size = 0;  // of the group that agreed

  explicit operator bool() const { return !reasons.empty(); }

  /// The lowest refusing rank's sentence, ", and N more ranks" behind it where others refuse too.
  std::string text() const;
};

/// What all ranks know after each gave its reason, or none. Collective; one least() when nobody
/// refuses, sentences travel only if they exist.
Agreed agree(Group& group, const Reason& mine);

/// Thrown on every rank alike.
class Refusal : public std::exception {
 public:
  Refusal(std::string text, Agreed agreed) : text_(std::move(text)), agreed_(std::move(agreed)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const Agreed& agreed() const { return agreed_; }

 private:
  std::string text_;
  Agreed agreed_;
};

/// Throws Refusal("{what}: {sentence}") on every rank when any rank has a reason. Collective.
void refuse_together(Group& group, const Reason& mine, std::string_view what);

/// The value, or Refusal on every rank where any rank has a reason instead. Collective.
template <typename T>
T agreed(Group& group, Result<T> result, std::string_view what) {
  refuse_together(group, result.reason, what);
  return std::move(*result);
}

/// Thrown when a transport or a rank is lost: the whole group ends.
class Lost : public std::exception {
 public:
  Lost(int rank, std::string text) : rank_(rank), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  int rank() const { return rank_; }

 private:
  int rank_;
  std::string text_;
};

/// Throws Lost: call, text and rank of what failed.
[[noreturn]] void lose(int rank, std::string text);

/// Every rank's text, in rank order. Collective.
std::vector<std::string> share_texts(Group& group, const std::string& mine);

}  // namespace slicecheck::group
