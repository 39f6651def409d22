// A group whose memory counts what it lends, and refuses one allocation where asked.
#pragma once

#include <algorithm>

#include "group/forwarding.h"

namespace slicecheck::reshard {

/// Host memory that counts its live bytes and refuses allocation number `refused` (-1: none).
class ScarceSpace final : public memory::Space {
 public:
  ScarceSpace(memory::Space& inner, int refused) : inner_(inner), refused_(refused) {}

  std::int64_t peak_bytes() const { return peak_; }
  int allocations() const { return allocations_; }

  std::string_view name() const override { return inner_.name(); }
  Result<std::shared_ptr<std::uint8_t>> allocate(std::int64_t bytes,
                                                 std::string_view purpose) override {
    if (allocations_++ == refused_) {
      return Reason("no room for " + std::string(purpose), "out-of-memory");
    }
    auto made = inner_.allocate(bytes, purpose);
    if (made.reason) return made;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    const std::shared_ptr<std::uint8_t> held = *made;
    return std::shared_ptr<std::uint8_t>(held.get(),
                                         [held, bytes, this](std::uint8_t*) { live_ -= bytes; });
  }
  void upload(std::uint8_t* to, Bytes from) override { inner_.upload(to, from); }
  void download(MutableBytes to, const std::uint8_t* from) override { inner_.download(to, from); }
  void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) override {
    inner_.copy(to, from, bytes);
  }
  void fill(std::uint8_t* to, std::uint8_t value, std::int64_t bytes) override {
    inner_.fill(to, value, bytes);
  }
  void fill_plain(std::uint8_t* to, const memory::PayloadPlain& plain) override {
    inner_.fill_plain(to, plain);
  }
  void fill_payload(std::uint8_t* to, const memory::PayloadTensor& tensor) override {
    inner_.fill_payload(to, tensor);
  }
  void convert(std::uint8_t* to, layout::Kind kind, const layout::Widths& widths,
               const memory::PlainSource& from, std::int64_t experts) override {
    inner_.convert(to, kind, widths, from, experts);
  }
  void pack(const memory::Packed& to, const std::uint8_t* stock, layout::Kind kind,
            const layout::Shape& shape) override {
    inner_.pack(to, stock, kind, shape);
  }
  memory::Difference compare(const std::uint8_t* a, const std::uint8_t* b,
                             std::int64_t bytes) override {
    return inner_.compare(a, b, bytes);
  }
  std::vector<memory::Difference> compare_payload(const std::uint8_t* got,
                                                  const memory::PayloadTensor& tensor) override {
    return inner_.compare_payload(got, tensor);
  }
  Digest digest(const std::uint8_t* from, std::int64_t bytes) override {
    return inner_.digest(from, bytes);
  }
  void synchronise() override { inner_.synchronise(); }

 private:
  memory::Space& inner_;
  int refused_;
  int allocations_ = 0;
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

/// Counts the payload's collectives too: the exchanges, and the calls that brought them.
class ScarceGroup final : public group::ForwardingGroup {
 public:
  ScarceGroup(group::Group& inner, int refused)
      : ForwardingGroup(inner), space_(inner.space(), refused) {}

  ScarceSpace& space() override { return space_; }
  int calls() const { return calls_; }
  int exchanges() const { return exchanges_; }
  int gathers() const { return gathers_; }

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    ++exchanges_;
    inner().all_to_all(received, sent, block_bytes);
  }
  void exchange(const std::vector<group::Exchange>& exchanges) override {
    ++calls_;
    ForwardingGroup::exchange(exchanges);
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    ++gathers_;
    inner().all_gather(received, sent, block_bytes);
  }

 private:
  ScarceSpace space_;
  int calls_ = 0;
  int exchanges_ = 0;
  int gathers_ = 0;
};

}  // namespace slicecheck::reshard
