// The experts that a layer must hold, plain, one at a time: by the payload rule, or from a caller
// who has them (a checkpoint, or stocks taken as true).
#pragma once

#include <functional>
#include <list>

#include "layout/payload.h"
#include "verify/map.h"

namespace slicecheck::verify {

/// Gives plain expert `expert` (global), whole, at the layer's widths.
using Loader = std::function<experts::PlainExpert(std::int64_t expert)>;

/// Keeps the last experts that were asked for: `kept` whole plain experts, or as many as lie in
/// `kept_bytes`, whichever is more.
class Reference {
 public:
  /// Experts by the payload rule; padded with zeros where the layer says so.
  Reference(const Case& layer, const layout::Payload& payload);
  Reference(const Case& layer, Loader loader);
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  const Case& layer() const { return layer_; }
  const std::optional<layout::Payload>& payload() const { return payload_; }

  /// The widths of the experts' data, before padding.
  layout::Widths data_widths() const;

  /// Valid until `kept` other experts were asked for.
  const experts::PlainExpert& whole(std::int64_t expert);

  /// The same place under another seed; payloads only.
  experts::PlainExpert seeded(std::int64_t expert, std::uint64_t seed) const;

  static constexpr std::size_t kept = 4;
  static constexpr std::int64_t kept_bytes = std::int64_t{64} << 20;

 private:
  Case layer_;
  std::optional<layout::Payload> payload_;
  Loader loader_;
  std::list<std::pair<std::int64_t, experts::PlainExpert>> recent_;
};

/// A plain expert grown to `widths` by zeros: at the end of H and of I, of each projection.
experts::PlainExpert padded(const experts::PlainExpert& plain, const layout::Widths& widths);

}  // namespace slicecheck::verify
