// Judges one expert's tensor at a time: is it what it must be, and if not, which map explains its
// bytes with the least, or what else happened to them. Nothing is built unless something differs.
#pragma once

#include "verify/trace.h"
#include "verify/wrong_tensor.h"

namespace slicecheck::verify {

/// Where a tensor's bytes differ from what is due.
struct Differing {
  Bytes got;
  Bytes due;
  std::vector<std::uint32_t> at;  // offsets, ascending
};

/// Cost of a healthy tensor: one expected copy of it. Of a wrong one: a few, and the reference's
/// recent experts; an index (Tracer) without a payload.
class Judge {
 public:
  explicit Judge(Reference& reference) : reference_(reference), tracer_(reference) {}

  /// Nothing when `got` is, byte for byte, what the target must be.
  std::optional<WrongTensor> judged(const Target& target, Bytes got);

  Reference& reference() { return reference_; }

 private:
  struct Found {
    Map map;
    Causes causes;
    Causes alternatives;
    ByteVector bytes;
    std::int64_t unexplained = 0;  // differing bytes that it does not give
    std::int64_t missed = 0;       // bytes of the whole tensor that it does not give
  };

  void explain(WrongTensor& made, const Differing& differing, bool scales_judged);
  void accept(WrongTensor& made, const Found& found, const Differing& differing,
              bool scales_judged);
  const std::vector<Map>& healthy_maps(const Target& target);
  std::vector<Map> maps_of(const Target& target);
  std::vector<std::int64_t> candidate_experts(const Target& target, const Differing& differing);
  std::vector<Map> candidates(const Target& target, const Differing& differing);
  std::optional<Found> tried(const Target& target, const Map& map, const Differing& differing);
  std::optional<Found> best_map(const Target& target, const Differing& differing);
  bool other_payload(WrongTensor& made, const Differing& differing);
  bool other_payload_scales(WrongTensor& made, const Differing& differing);
  bool drifted(WrongTensor& made, const Differing& differing);
  std::int64_t twin_of(const Target& target, const Differing& differing);
  void say_first(WrongTensor& made, const Differing& differing);
  void trace_first(WrongTensor& made, const Differing& differing);

  Reference& reference_;
  Tracer tracer_;
  std::vector<Map> maps_[2][4];
};

/// Everything that can be said of bytes that no map explains: never written, invalid or saturated
/// scales, corrupted, unexplained. Adds one cause to `made`.
void say_unmapped(WrongTensor& made, const Differing& differing, bool scales_judged);

/// The offsets of `differing` that lie in a run of 64 or more constant bytes, most of which differ;
/// and the rest.
std::pair<Differing, Differing> never_written_split(const Differing& differing);

/// The offsets at which `got` is not `due`.
Differing differing_of(Bytes got, Bytes due);

}  // namespace slicecheck::verify
