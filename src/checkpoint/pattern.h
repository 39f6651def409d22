// Patterns of exclude lists: shell wildcards and Python's regular expressions, matched in time
// pattern x text, since they come from files. The program is run over all its states at once and
// never goes back, so no pattern can make it slow.
// Source: Thompson, Regular Expression Search Algorithm (CACM 1968).
#pragma once

#include <bitset>
#include <optional>
#include <string_view>
#include <vector>

namespace slicecheck::checkpoint {

class Pattern {
 public:
  /// A shell wildcard (* ? [a-z] [!a]) that must match the whole text, as Python's fnmatch.
  static Pattern wildcard(std::string_view text);

  /// A regular expression that must match at the text's begin, as Python's re.match: literals,
  /// . * + ? | ( ) (?: ) [ ] ^ $ {m,n} and the escapes \d \w \s \. Nothing where it says more (look
  /// around, back references), is wrong, or longer than a name can need.
  static std::optional<Pattern> expression(std::string_view text);

  bool matches(std::string_view text) const;

  using Characters = std::bitset<256>;

  /// One step of the program. `take` goes on behind a character of the set, `fork` at both of its
  /// targets (given as steps from here).
  struct Step {
    enum class Kind { take, fork, begin, end, match } kind = Kind::match;
    Characters characters;
    std::ptrdiff_t first = 1;
    std::ptrdiff_t second = 1;
  };
  using Program = std::vector<Step>;

 private:
  explicit Pattern(Program program) : program_(std::move(program)) {}

  Program program_;
};

}  // namespace slicecheck::checkpoint
