// Bytes where they lie: one interface to host and device memory, with the same operations and the
// same bytes from each. The index maps are layout's own, evaluated once a row or tile.
// A class with two implementations beside Group: which one serves is known at run time only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/digest.h"
#include "base/must.h"
#include "base/reason.h"
#include "layout/cut.h"
#include "layout/payload.h"

namespace slicecheck::memory {

/// How two runs of bytes differ: how many bytes, and the offset of the first (-1: none).
struct Difference {
  std::int64_t differing = 0;
  std::int64_t first = -1;
  bool operator==(const Difference&) const = default;
};

/// A converted tensor by the payload rule: slice d of tp of `experts` experts from `first_expert`
/// on, each matrix(kind, {H, I / tp}). A stock tensor is the one slice of tp = 1.
struct PayloadTensor {
  layout::Payload payload;
  layout::Kind kind = layout::Kind::w13;
  layout::Widths whole;  // H and I of the whole experts
  std::int64_t tp = 1;
  std::int64_t d = 0;
  std::int64_t first_expert = 0;
  std::int64_t experts = 0;

  constexpr layout::Widths widths() const { return {whole.hidden, whole.intermediate / tp}; }
  constexpr std::int64_t expert_bytes() const { return layout::matrix(kind, widths()).bytes(); }
};

/// A projection's plain matrices of `experts` experts from `first_expert` on, by the payload rule.
struct PayloadPlain {
  layout::Payload payload;
  layout::Projection projection = layout::Projection::w1;
  bool scale = false;
  layout::Widths whole;
  std::int64_t first_expert = 0;
  std::int64_t experts = 0;
};

/// Plain matrices of `experts` experts, to be converted into one tensor: w13 and w13_sf take w3 as
/// `up` and w1 as `gate`, w2 and w2_sf take w2 as `down`. Each [experts, rows, row_bytes].
struct PlainSource {
  const std::uint8_t* up = nullptr;
  const std::uint8_t* gate = nullptr;
  const std::uint8_t* down = nullptr;
};

/// Where a cut goes: slices of all ranks to `to`, slice `own` (none: -1) to `own_to` instead.
struct Packed {
  Packed(std::uint8_t* all) : to(all) {}  // NOLINT(google-explicit-constructor)
  Packed(std::uint8_t* all, std::int64_t own_slice, std::uint8_t* own_place)
      : to(all), own(own_slice), own_to(own_place) {}

  std::uint8_t* to = nullptr;
  std::int64_t own = -1;
  std::uint8_t* own_to = nullptr;
};

/// One space of memory. Pointers given to a space are that space's; `Bytes` are host bytes.
/// Operations are ordered one after another; those that return a value have ended when they return.
/// Memory is given back in that order too: a buffer may be let go while operations still read it.
/// Work that may overlap goes to a second lane, beside(), which is ordered by itself.
class Space {
 public:
  Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  virtual ~Space() = default;

  /// "host" or "cuda".
  virtual std::string_view name() const = 0;

  /// `bytes` bytes, not set, 256-byte aligned. Refuses when memory is out: the reason names the
  /// purpose, the bytes wanted and the bytes free (cause out-of-memory).
  virtual Result<std::shared_ptr<std::uint8_t>> allocate(std::int64_t bytes,
                                                         std::string_view purpose) = 0;

  virtual void upload(std::uint8_t* to, Bytes from) = 0;
  virtual void download(MutableBytes to, const std::uint8_t* from) = 0;
  virtual void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) = 0;

  /// Sets every byte to `value`: poison before an engine writes, guard bytes around its buffers.
  virtual void fill(std::uint8_t* to, std::uint8_t value, std::int64_t bytes) = 0;

  /// Writes plain matrices by the payload rule, [experts, rows, row_bytes].
  virtual void fill_plain(std::uint8_t* to, const PayloadPlain& plain) = 0;

  /// Writes a converted tensor by the payload rule, every byte by index formula.
  virtual void fill_payload(std::uint8_t* to, const PayloadTensor& tensor) = 0;

  /// Converts plain matrices into one stock (or tp) tensor of `experts` experts of these widths.
  virtual void convert(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
                       const PlainSource& from, std::int64_t experts) = 0;

  /// Packs a stock tensor [Er, ...] into [tp, Er, slice bytes]: entry d is slice d of every expert.
  virtual void pack(const Packed& to, const std::uint8_t* stock, layout::Kind kind,
                    const layout::Shape& shape) = 0;

  /// How two runs of `bytes` bytes differ.
  virtual Difference compare(const std::uint8_t* a, const std::uint8_t* b, std::int64_t bytes) = 0;

  /// How a tensor differs from what the payload says, per expert [experts]; `first` counts from the
  /// expert's start. No expected copy is read: the expected byte is computed.
  virtual std::vector<Difference> compare_payload(const std::uint8_t* got,
                                                  const PayloadTensor& tensor) = 0;

  /// XXH3-128 on the host; the device may hash otherwise, so digests are compared within one space.
  virtual Digest digest(const std::uint8_t* from, std::int64_t bytes) = 0;

  /// Waits until every operation so far has ended.
  virtual void synchronise() = 0;

  /// A second lane to the same memory, which works beside this one, packs with half of the device,
  /// and lives as long as this one. A buffer of this lane that it uses may be let go only after
  /// this lane has waited for it. A space of one lane, as the host's, gives itself.
  virtual Space& beside() { return *this; }

  /// What this lane is given from now on begins when all that the other lane of its memory,
  /// `other`, was given so far has ended. The host does not wait.
  virtual void wait_for(Space& other);
};

inline void Space::wait_for(Space& other) {
  must(&other == this, "a space of one lane waits for another");
}

/// Host memory. Plain loops over rows and tiles, written for the memory's speed.
std::unique_ptr<Space> host_space();

}  // namespace slicecheck::memory
