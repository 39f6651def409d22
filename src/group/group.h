// Ranks that act together. A group moves bytes between its ranks' memory and lets them agree;
// `local` (threads of one process), `mpi` and `nccl` are its backends. Every member below but
// rank(), size(), name(), space() and moved() is *Collective*: all ranks call it, in the same
// order. A transport that fails ends the whole group (there is nothing left to agree over): lose().
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "memory/space.h"

namespace slicecheck::group {

/// What all_to_others() takes.
struct Exchange {
  std::uint8_t* received = nullptr;
  std::uint8_t* sent = nullptr;
  std::int64_t block_bytes = 0;
};

/// What all_gather() takes.
struct Gather {
  std::uint8_t* received = nullptr;
  const std::uint8_t* sent = nullptr;
  std::int64_t block_bytes = 0;
};

class Group {
 public:
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// "local", "mpi" or "nccl".
  virtual std::string_view name() const = 0;

  /// The memory that all_to_all and all_gather move.
  virtual memory::Space& space() = 0;

  // Control: host bytes, small.

  /// The smallest of all ranks' values. Collective.
  virtual std::int64_t least(std::int64_t value) = 0;

  /// Every rank's bytes in rank order, [size, mine.size()]; all ranks give equally many.
  /// Collective.
  virtual void share(Bytes mine, MutableBytes all) = 0;

  /// `bytes` of rank `root` on every rank. Collective.
  virtual void broadcast(MutableBytes bytes, int root) = 0;

  // Payload: bytes in space(), any number of them (beyond 2^31 too).

  /// Block s of `received` is block rank() of rank s's `sent`; blocks of `block_bytes` bytes.
  /// Collective.
  virtual void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                          std::int64_t block_bytes) = 0;

  /// all_to_all for ranks whose own block lies in `received` already, where it stays. The own block
  /// of `sent` may be written. Collective.
  virtual void all_to_others(std::uint8_t* received, std::uint8_t* sent, std::int64_t block_bytes) {
    const std::int64_t own = rank() * block_bytes;
    space().copy(sent + own, received + own, block_bytes);
    all_to_all(received, sent, block_bytes);
  }

  /// all_to_others() of each; a transport may take them in one call. Collective.
  virtual void exchange(const std::vector<Exchange>& exchanges) {
    for (const Exchange& each : exchanges) {
      all_to_others(each.received, each.sent, each.block_bytes);
    }
  }

  /// Block s of `received` is rank s's `sent`, `block_bytes` bytes each. Collective.
  virtual void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                          std::int64_t block_bytes) = 0;

  /// Each of `gathers`; a transport may take them in one call. Collective.
  virtual void all_gathers(const std::vector<Gather>& gathers) {
    for (const Gather& each : gathers) all_gather(each.received, each.sent, each.block_bytes);
  }

  /// The ranks of equal `color`, in rank order, as a group of the same kind. Collective.
  virtual std::unique_ptr<Group> split(int color) = 0;

  /// Says that this rank has moved on, to whoever watches it: a step of work between calls.
  virtual void moved() {}
};

}  // namespace slicecheck::group
