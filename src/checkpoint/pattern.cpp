#include "checkpoint/pattern.h"

#include <charconv>

namespace slicecheck::checkpoint {
namespace {

using Step = Pattern::Step;
using Program = Pattern::Program;
using Characters = Pattern::Characters;

constexpr std::size_t text_max = 1000;
constexpr std::size_t steps_max = 20000;
constexpr int groups_max = 50;
constexpr int repeats_max = 100;

Program one(const Characters& characters) { return {{Step::Kind::take, characters, 1, 1}}; }
Program one(char c) { return one(Characters().set(static_cast<unsigned char>(c))); }
Program edge(Step::Kind kind) { return {{kind, {}, 1, 1}}; }

Characters anything() { return Characters().set().reset('\n'); }

Characters between(char first, char last) {
  Characters made;
  for (int c = static_cast<unsigned char>(first); c <= static_cast<unsigned char>(last); ++c) {
    made.set(static_cast<std::size_t>(c));
  }
  return made;
}

void append(Program& program, const Program& more) {
  program.insert(program.end(), more.begin(), more.end());
}

Step fork(std::size_t first, std::ptrdiff_t second) {
  return {Step::Kind::fork, {}, static_cast<std::ptrdiff_t>(first), second};
}

Program optional(const Program& body) {
  Program made{fork(1, static_cast<std::ptrdiff_t>(body.size()) + 1)};
  append(made, body);
  return made;
}

Program repeated(const Program& body) {  // any number of times, also none
  Program made{fork(1, static_cast<std::ptrdiff_t>(body.size()) + 2)};
  append(made, body);
  made.push_back(fork(1, -static_cast<std::ptrdiff_t>(body.size())));
  return made;
}

Program either(const Program& a, const Program& b) {
  Program made{fork(1, static_cast<std::ptrdiff_t>(a.size()) + 2)};
  append(made, a);
  made.push_back(fork(b.size() + 1, static_cast<std::ptrdiff_t>(b.size()) + 1));
  append(made, b);
  return made;
}

// The set of an escape's letter: \d \w \s, or the punctuation itself.
std::optional<Characters> escaped(char c) {
  const Characters digits = between('0', '9');
  switch (c) {
    case 'd':
      return digits;
    case 'w':
      return digits | between('a', 'z') | between('A', 'Z') | between('_', '_');
    case 's':
      return between('\t', '\r') | between(' ', ' ');
    default:
      break;
  }
  const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (letter) return {};
  return between(c, c);
}

// The characters of a [class] whose first character is at `at`; `at` ends behind its bracket.
std::optional<Characters> class_at(std::string_view text, std::size_t& at, char negation) {
  Characters made;
  const bool negated = at < text.size() && text[at] == negation;
  if (negated) ++at;
  for (bool first = true; at < text.size() && (first || text[at] != ']'); first = false) {
    char c = text[at++];
    if (c == '\\' && negation == '^') {
      if (at == text.size()) return {};
      const std::optional<Characters> set = escaped(text[at++]);
      if (!set) return {};
      made |= *set;
      continue;
    }
    const bool range = at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']';
    const char last = range ? text[at + 1] : c;
    if (range) at += 2;
    made |= between(c, last);
  }
  if (at == text.size()) return {};
  ++at;
  return negated ? ~made : made;
}

// Reads an expression; every member gives nothing where it is not of the subset.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Program> all() {
    std::optional<Program> made = alternatives(0);
    if (at_ != text_.size()) return {};
    return made;
  }

 private:
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }

  std::optional<Program> alternatives(int depth) {
    std::optional<Program> made = sequence(depth);
    while (made && next_is('|')) {
      ++at_;
      const std::optional<Program> other = sequence(depth);
      if (!other) return {};
      made = either(*made, *other);
    }
    return made;
  }

  std::optional<Program> sequence(int depth) {
    Program made;
    while (at_ < text_.size() && !next_is('|') && !next_is(')')) {
      std::optional<Program> item = atom(depth);
      if (item) item = counted(*item);
      if (!item || made.size() + item->size() > steps_max) return {};
      append(made, *item);
    }
    return made;
  }

  std::optional<Program> atom(int depth) {
    const char c = text_[at_++];
    switch (c) {
      case '.':
        return one(anything());
      case '^':
        return edge(Step::Kind::begin);
      case '$':
        return edge(Step::Kind::end);
      case '(':
        return group(depth);
      case '*':
      case '+':
      case '?':
        return {};
      case '[': {
        const std::optional<Characters> set = class_at(text_, at_, '^');
        return set ? std::optional<Program>(one(*set)) : std::nullopt;
      }
      case '\\': {
        if (at_ == text_.size()) return {};
        const std::optional<Characters> set = escaped(text_[at_++]);
        return set ? std::optional<Program>(one(*set)) : std::nullopt;
      }
      default:
        return one(c);
    }
  }

  std::optional<Program> group(int depth) {
    if (depth == groups_max) return {};
    if (next_is('?')) {
      if (!text_.substr(at_).starts_with("?:")) return {};
      at_ += 2;
    }
    std::optional<Program> made = alternatives(depth + 1);
    if (!next_is(')')) return {};
    ++at_;
    return made;
  }

  std::optional<Program> counted(const Program& item) {
    Program made = item;
    if (next_is('*')) {
      made = repeated(item);
    } else if (next_is('+')) {
      append(made, repeated(item));
    } else if (next_is('?')) {
      made = optional(item);
    } else if (next_is('{')) {
      return times(item);
    } else {
      return made;
    }
    ++at_;
    if (next_is('?')) ++at_;  // as short as possible: the same texts match
    return made;
  }

  std::optional<int> number() {
    int value = 0;
    const char* end = text_.data() + text_.size();
    const auto [stop, failed] = std::from_chars(text_.data() + at_, end, value);
    if (failed != std::errc() || value < 0 || value > repeats_max) return {};
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  // {m}, {m,} or {m,n}
  std::optional<Program> times(const Program& item) {
    ++at_;
    const std::optional<int> least = number();
    if (!least) return {};
    std::optional<int> most = least;
    bool endless = false;
    if (next_is(',')) {
      ++at_;
      endless = next_is('}');
      if (!endless) most = number();
    }
    if (!most || *most < *least || !next_is('}')) return {};
    ++at_;
    if (item.size() * static_cast<std::size_t>(*most + 2) > steps_max) return {};
    Program made;
    for (int i = 0; i < *least; ++i) append(made, item);
    if (endless) append(made, repeated(item));
    for (int i = *least; i < *most; ++i) append(made, optional(item));
    return made;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The states that are reached before the character at `at` is looked at.
class States {
 public:
  States(const Program& program, std::string_view text)
      : program_(&program), end_(text.size()), seen_(program.size()) {}

  void add(std::size_t state, std::size_t at) {
    std::vector<std::size_t> waiting{state};
    while (!waiting.empty()) {
      const std::size_t from = waiting.back();
      waiting.pop_back();
      if (seen_[from]) continue;
      seen_[from] = true;
      const Step& step = (*program_)[from];
      if (step.kind == Step::Kind::fork) {
        waiting.push_back(from + static_cast<std::size_t>(step.second));
        waiting.push_back(from + static_cast<std::size_t>(step.first));
      } else if (step.kind == Step::Kind::take || step.kind == Step::Kind::match) {
        held_.push_back(from);
      } else if (step.kind == Step::Kind::begin ? at == 0 : at == end_) {
        waiting.push_back(from + 1);
      }
    }
  }

  const std::vector<std::size_t>& held() const { return held_; }

 private:
  const Program* program_;
  std::size_t end_;
  std::vector<bool> seen_;
  std::vector<std::size_t> held_;
};

}  // namespace

Pattern Pattern::wildcard(std::string_view text) {
  Program program;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c == '*') {
      append(program, repeated(one(Characters().set())));
    } else if (c == '?') {
      append(program, one(Characters().set()));
    } else {
      std::size_t behind = at;
      const std::optional<Characters> set =
          c == '[' ? class_at(text, behind, '!') : std::optional<Characters>();
      append(program, set ? one(*set) : one(c));
      if (set) at = behind;
    }
  }
  append(program, edge(Step::Kind::end));
  append(program, edge(Step::Kind::match));
  return Pattern(std::move(program));
}

std::optional<Pattern> Pattern::expression(std::string_view text) {
  if (text.size() > text_max) return {};
  std::optional<Program> program = Reader(text).all();
  if (!program) return {};
  append(*program, edge(Step::Kind::match));
  return Pattern(std::move(*program));
}

bool Pattern::matches(std::string_view text) const {
  States states(program_, text);
  states.add(0, 0);
  for (std::size_t at = 0; !states.held().empty(); ++at) {
    States next(program_, text);
    for (const std::size_t state : states.held()) {
      const Step& step = program_[state];
      if (step.kind == Step::Kind::match) return true;
      if (at == text.size()) continue;
      if (step.characters[static_cast<unsigned char>(text[at])]) next.add(state + 1, at + 1);
    }
    if (at == text.size()) return false;
    states = std::move(next);
  }
  return false;
}

}  // namespace slicecheck::checkpoint
