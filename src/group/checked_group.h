// A group that digests what it moves, before it is sent and after it has arrived: bytes that change
// on the way are told from bytes that were laid out wrongly.
#pragma once

#include "base/digest.h"
#include "group/forwarding.h"

namespace slicecheck::group {

/// What a rank has moved and found changed: bytes received, and for each changed block its sender
/// (a rank of the group that moved it).
struct Moved {
  std::int64_t bytes = 0;
  std::int64_t blocks = 0;
  std::vector<int> changed_from;
};

/// Digests every block of payload; parts of the group write to the same record.
class CheckedGroup final : public ForwardingGroup {
 public:
  CheckedGroup(Group& inner, Moved& moved) : ForwardingGroup(inner), moved_(moved) {}
  CheckedGroup(std::unique_ptr<Group> inner, Moved& moved)
      : ForwardingGroup(*inner), moved_(moved), owned_(std::move(inner)) {}

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const std::vector<Digest> due = shared_digests(sent, size(), block_bytes);
    inner().all_to_all(received, sent, block_bytes);
    for (int from = 0; from < size(); ++from) {
      check(received, from, block_bytes, due[from * size() + rank()]);
    }
  }
  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    const std::vector<Digest> due = shared_digests(sent, size(), block_bytes);
    inner().all_to_others(received, sent, block_bytes);
    for (int from = 0; from < size(); ++from) {
      // The own block was there before.
      if (from != rank()) check(received, from, block_bytes, due[from * size() + rank()]);
    }
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    const std::vector<Digest> due = shared_digests(sent, 1, block_bytes);
    inner().all_gather(received, sent, block_bytes);
    for (int from = 0; from < size(); ++from) check(received, from, block_bytes, due[from]);
  }
  std::unique_ptr<Group> split(int color) override {
    return std::make_unique<CheckedGroup>(inner().split(color), moved_);
  }

 private:
  /// Every rank's digests of its `blocks` blocks, in rank order. Collective.
  std::vector<Digest> shared_digests(const std::uint8_t* sent, int blocks, std::int64_t bytes) {
    std::vector<Digest> mine;
    for (int block = 0; block < blocks; ++block) {
      mine.push_back(space().digest(sent + block * bytes, bytes));
    }
    std::vector<Digest> all(mine.size() * size());
    inner().share({mine.front().bytes.data(), mine.size() * sizeof(Digest)},
                  {all.front().bytes.data(), all.size() * sizeof(Digest)});
    return all;
  }

  void check(const std::uint8_t* received, int from, std::int64_t bytes, const Digest& due) {
    moved_.bytes += bytes;
    ++moved_.blocks;
    if (space().digest(received + from * bytes, bytes) != due) moved_.changed_from.push_back(from);
  }

  Moved& moved_;
  std::unique_ptr<Group> owned_;
};

}  // namespace slicecheck::group
