// A group whose every blocking call is noted, so that a rank that waits for ever can say in what.
#pragma once

#include "group/forwarding.h"
#include "group/watch/notes.h"

namespace slicecheck::group {

/// Notes each collective at its begin and its end. Parts of it are watched too, with the same
/// notes.
class WatchedGroup final : public ForwardingGroup {
 public:
  WatchedGroup(Group& inner, Notes& notes) : ForwardingGroup(inner), notes_(notes) {}
  WatchedGroup(std::unique_ptr<Group> inner, Notes& notes)
      : ForwardingGroup(*inner), notes_(notes), owned_(std::move(inner)) {}

  void moved() override { notes_.step(); }
  std::int64_t least(std::int64_t value) override {
    const Call call(notes_, "least");
    return inner().least(value);
  }
  void share(Bytes mine, MutableBytes all) override {
    const Call call(notes_, "share");
    inner().share(mine, all);
  }
  void broadcast(MutableBytes bytes, int root) override {
    const Call call(notes_, "broadcast");
    inner().broadcast(bytes, root);
  }
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const Call call(notes_, "all_to_all");
    inner().all_to_all(received, sent, block_bytes);
  }
  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    const Call call(notes_, "all_to_others");
    inner().all_to_others(received, sent, block_bytes);
  }
  void exchange(const std::vector<Exchange>& exchanges) override {
    const Call call(notes_, "all_to_others");
    inner().exchange(exchanges);
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const Call call(notes_, "all_gather");
    inner().all_gather(received, sent, block_bytes);
  }
  void all_gathers(const std::vector<Gather>& gathers) override {
    const Call call(notes_, "all_gather");
    inner().all_gathers(gathers);
  }
  std::unique_ptr<Group> split(int color) override {
    const Call call(notes_, "split");
    return std::make_unique<WatchedGroup>(inner().split(color), notes_);
  }

 private:
  class Call {
   public:
    Call(Notes& notes, std::string_view name) : notes_(notes) { notes_.call(name); }
    ~Call() { notes_.call(""); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Notes& notes_;
  };

  Notes& notes_;
  std::unique_ptr<Group> owned_;
};

}  // namespace slicecheck::group
