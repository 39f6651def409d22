#include "verify/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/must.h"
#include "layout/place.h"

namespace slicecheck::verify {
namespace {

constexpr std::int64_t shown_bytes = 16;

ExpertDifference difference(std::int64_t expert, Bytes want, Bytes got) {
  ExpertDifference made{expert, 0, 0};
  if (std::memcmp(want.data(), got.data(), want.size()) == 0) return made;
  for (std::size_t i = want.size(); i-- > 0;) {
    if (want[i] == got[i]) continue;
    ++made.differing;
    made.first = static_cast<std::int64_t>(i);
  }
  return made;
}

}  // namespace

std::vector<TensorComparison> compare(const Judged& judged, const ExpectedExpert& expected,
                                      const std::function<Bytes(layout::Kind)>& got) {
  std::vector<TensorComparison> made;
  for (const layout::Kind kind : layout::kinds) made.push_back({kind, 0, 0, {}});
  for (std::int64_t local = 0; local < judged.experts; ++local) {
    const experts::ConvertedExpert due = expected(judged.first_expert + local);
    for (TensorComparison& tensor : made) {
      const Bytes want = experts::bytes_of(due, tensor.kind);
      must(static_cast<std::int64_t>(want.size()) ==
               layout::matrix(tensor.kind, judged.widths()).bytes(),
           "an expected expert of other widths");
      const Bytes held = got(tensor.kind).subspan(local * want.size(), want.size());
      const ExpertDifference found = difference(judged.first_expert + local, want, held);
      tensor.compared += static_cast<std::int64_t>(want.size());
      tensor.differing += found.differing;
      if (found.differing > 0) tensor.experts.push_back(found);
    }
  }
  return made;
}

report::Logical logical_place(const Judged& judged, layout::Kind kind, std::int64_t expert,
                              std::int64_t offset) {
  const layout::PlainPlace place = layout::whole_place(
      layout::plain_place(kind, offset, judged.widths()), judged.d, judged.widths().intermediate);
  const std::int64_t column = place.byte * (place.scale ? layout::sf_vec : layout::codes_per_byte);
  return {std::string(layout::name(place.projection)), expert, place.row, column, std::nullopt};
}

std::string hex_from(Bytes bytes, std::int64_t offset) {
  const std::size_t end = std::min(bytes.size(), static_cast<std::size_t>(offset + shown_bytes));
  std::string text;
  for (std::size_t i = offset; i < end; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

report::First first_difference(const Judged& judged, layout::Kind kind,
                               const ExpertDifference& difference, Bytes want, Bytes got) {
  const layout::Matrix matrix = layout::matrix(kind, judged.widths());
  report::First made;
  made.rank = judged.rank;
  made.tensor = layout::name(kind);
  made.expert = difference.expert;
  made.row = difference.first / matrix.row_bytes;
  made.byte = difference.first % matrix.row_bytes;
  made.offset = (difference.expert - judged.first_expert) * matrix.bytes() + difference.first;
  made.want = hex_from(want, difference.first);
  made.got = hex_from(got, difference.first);
  made.logical = logical_place(judged, kind, difference.expert, difference.first);
  return made;
}

}  // namespace slicecheck::verify
