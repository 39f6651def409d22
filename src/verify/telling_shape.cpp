#include "verify/telling_shape.h"

#include <algorithm>

#include "experts/payload.h"

namespace slicecheck::verify {
namespace {

struct Telling {
  layout::Shape shape;
  std::string_view text;
};

constexpr std::array<Telling, 2> telling{{{{6, 640, 384, 3}, "T1 (E 6, H 640, I 384, tp 3)"},
                                          {{6, 384, 640, 2}, "T2 (E 6, H 384, I 640, tp 2)"}}};

// A target like `other` in a layer of another shape.
Target target_like(const Target& other, const layout::Shape& shape) {
  Target made = other;
  made.expert = std::min(other.expert, shape.experts - 1);
  made.rank = other.side == Side::stock ? made.expert / shape.experts_per_rank()
                                        : std::min(other.rank, shape.tp - 1);
  return made;
}

// What `wrong` did, done to a target of another shape; nothing where it cannot be done there.
std::optional<Map> map_like(const Case& layer, const WrongTensor& wrong, const Case& other,
                            const Target& target) {
  const layout::Kind kind = target.kind;
  Map made = wrong.map;
  const Map due = healthy_map(target);
  const Map own = healthy_map(wrong.target);
  made.expert =
      wrong.map.expert == own.expert ? due.expert : (due.expert + 1) % other.shape.experts;
  made.slice = wrong.map.slice == own.slice ? due.slice : (due.slice + 1) % other.shape.tp;
  if (made.padding != Padding::due) return {};
  if (made.order == RowOrder::blocks) {
    const std::int64_t rows = layout::matrix(kind, widths_of(layer, target.side)).rows;
    const std::int64_t parts = rows / made.block_rows;
    const std::int64_t here = layout::matrix(kind, widths_of(other, target.side)).rows;
    if (here % (32 * parts) != 0) return {};
    made.block_rows = here / parts;
  }
  const layout::Matrix whole = layout::matrix(kind, layout::stock_widths(other.shape));
  if (made.cut == CutWay::other_axis && whole.row_bytes % other.shape.tp != 0) return {};
  return made;
}

// The maps that deviate by `cause` alone, of this or another slice and expert.
std::vector<Map> maps_by(Cause cause, const Case& layer, const Target& target) {
  const Map due = healthy_map(target);
  const std::int64_t slices = target.side == Side::tp ? layer.shape.tp : 1;
  Causes sought;
  sought.add(cause);
  std::vector<Map> made;
  for (Map map : deviations(layer, target)) {
    for (const std::int64_t expert : {due.expert, (due.expert + 1) % layer.shape.experts}) {
      for (std::int64_t slice = 0; slice < slices; ++slice) {
        map.expert = expert;
        map.slice = slice;
        if (causes_of(target, map) == sought) made.push_back(map);
      }
    }
  }
  return made;
}

bool tells(const Case& layer, const WrongTensor& wrong, Causes also, const Case& other) {
  const Target target = target_like(wrong.target, other.shape);
  const std::optional<Map> did = map_like(layer, wrong, other, target);
  if (!did) return false;
  const layout::Payload payload{layout::PayloadKind::numeric, 1, 0};
  const auto bytes_by = [&](const Map& map) {
    return mapped(other, target, map,
                  experts::payload_expert(payload, map.expert, layout::stock_widths(other.shape)));
  };
  const ByteVector bytes = bytes_by(*did);
  if (bytes == bytes_by(healthy_map(target))) return false;
  const std::vector<Cause> causes = also.list();
  return std::all_of(causes.begin(), causes.end(), [&](Cause cause) {
    const std::vector<Map> maps = maps_by(cause, other, target);
    return !maps.empty() && std::none_of(maps.begin(), maps.end(),
                                         [&](const Map& map) { return bytes_by(map) == bytes; });
  });
}

}  // namespace

std::string_view telling_shape(const Case& layer, const WrongTensor& wrong, Causes also) {
  for (const Telling& one : telling) {
    if (one.shape != layer.shape && tells(layer, wrong, also, {one.shape, {}})) return one.text;
  }
  return "";
}

}  // namespace slicecheck::verify
