#include "group/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "group/shared.h"

namespace slicecheck::group {
namespace {

// A reason as it travels: a line for each of its fields, and its sentence behind them. Nothing
// where there is none.
std::string sealed(const Reason& reason) {
  if (!reason) return {};
  const Where& where = reason.where();
  return fmt::format("{}\n{}\n{}\n{} {} {} {}\n{}", reason.cause(), where.side, where.tensor,
                     where.rank, where.expert, where.layer, where.group, reason.text());
}

Reason opened(const std::string& text) {
  if (text.empty()) return {};
  std::istringstream lines(text);
  std::string cause;
  Where where;
  std::getline(lines, cause);
  std::getline(lines, where.side);
  std::getline(lines, where.tensor);
  lines >> where.rank >> where.expert >> where.layer >> where.group;
  lines.ignore();
  return Reason(std::string(std::istreambuf_iterator<char>(lines), {}), cause, std::move(where));
}

}  // namespace

std::string Agreed::text() const {
  if (reasons.empty()) return {};
  const std::string& sentence = reasons.front().reason.text();
  const std::size_t more = reasons.size() - 1;
  if (more == 0) return sentence;
  return fmt::format("{}, and {} more rank{}", sentence, more, more == 1 ? "" : "s");
}

Agreed agree(Group& group, const Reason& mine) {
  if (group.least(mine ? 0 : 1) == 1) return {};
  const std::vector<std::string> texts = share_texts(group, sealed(mine));
  Agreed agreed;
  agreed.size = group.size();
  for (int rank = 0; rank < group.size(); ++rank) {
    Reason each = opened(texts[rank]);
    if (each) agreed.reasons.push_back({rank, std::move(each)});
  }
  return agreed;
}

void refuse_together(Group& group, const Reason& mine, std::string_view what) {
  Agreed agreed = agree(group, mine);
  if (!agreed) return;
  std::string text = fmt::format("{}: {}", what, agreed.text());
  throw Refusal(std::move(text), std::move(agreed));
}

void lose(int rank, std::string text) { throw Lost(rank, std::move(text)); }

std::vector<std::string> share_texts(Group& group, const std::string& mine) {
  const std::vector<std::int64_t> sizes = shared(group, static_cast<std::int64_t>(mine.size()));
  const std::int64_t widest = *std::max_element(sizes.begin(), sizes.end());
  ByteVector padded(widest);
  std::copy(mine.begin(), mine.end(), padded.begin());
  ByteVector all(widest * group.size());
  group.share(padded, all);
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto* at = reinterpret_cast<const char*>(all.data()) + rank * widest;
    texts.emplace_back(at, at + sizes[rank]);
  }
  return texts;
}

}  // namespace slicecheck::group
