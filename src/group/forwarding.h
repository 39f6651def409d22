// A group that hands every call on to another: what decorators change a call or two of.
#pragma once

#include "group/group.h"

namespace slicecheck::group {

/// Forwards to `inner`, which outlives it. split() gives the inner group's part, undecorated.
class ForwardingGroup : public Group {
 public:
  explicit ForwardingGroup(Group& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string_view name() const override { return inner_.name(); }
  memory::Space& space() override { return inner_.space(); }
  void moved() override { inner_.moved(); }
  std::int64_t least(std::int64_t value) override { return inner_.least(value); }
  void share(Bytes mine, MutableBytes all) override { inner_.share(mine, all); }
  void broadcast(MutableBytes bytes, int root) override { inner_.broadcast(bytes, root); }
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    inner_.all_to_all(received, sent, block_bytes);
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    inner_.all_gather(received, sent, block_bytes);
  }
  std::unique_ptr<Group> split(int color) override { return inner_.split(color); }

 protected:
  Group& inner() { return inner_; }

 private:
  Group& inner_;
};

}  // namespace slicecheck::group
