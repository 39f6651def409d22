#include "experts/place.h"

namespace slicecheck::experts {

std::uint8_t byte_at(const PlainExpert& plain, const layout::PlainPlace& place) {
  const PlainProjection& from = projection_of(plain, place.projection);
  const layout::Matrix matrix =
      layout::plain_matrix(place.projection, place.scale, plain.widths);
  return (place.scale ? from.scale : from.weight)[place.row * matrix.row_bytes + place.byte];
}

ConvertedExpert placed_slice(const PlainExpert& plain, std::int64_t tp, std::int64_t d) {
  const std::int64_t part = plain.widths.intermediate / tp;
  ConvertedExpert made;
  made.widths = {plain.widths.hidden, part};
  for (const layout::Kind kind : layout::kinds) {
    ByteVector& bytes = bytes_of(made, kind);
    bytes.resize(layout::matrix(kind, made.widths).bytes());
    for (std::size_t offset = 0; offset < bytes.size(); ++offset) {
      const layout::PlainPlace place =
          layout::plain_place(kind, static_cast<std::int64_t>(offset), made.widths);
      bytes[offset] = byte_at(plain, layout::whole_place(place, d, part));
    }
  }
  return made;
}

}  // namespace slicecheck::experts
