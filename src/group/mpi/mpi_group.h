// Ranks as processes over MPI, their payload in host memory. MPI's own names stay in mpi_group.cpp:
// who includes this header needs none of them.
#pragma once

#include <memory>
#include <string>

#include "group/group.h"

namespace slicecheck::group {

/// A rank's number among those of its host, and how many those are.
struct HostPlace {
  int rank = 0;
  int size = 1;
};

/// MPI from initialisation to its end, once a process. Where MPI fails: lose().
class Session {
 public:
  /// Initialises MPI and asks for MPI_THREAD_MULTIPLE. Collective over the launch.
  Session();

  /// Ends MPI, collective over the launch; unless an exception is on its way, which the other ranks
  /// do not have: then nothing is said, and abort() or the launcher ends them.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// True when MPI may be called from several threads at once.
  bool many_threads() const { return many_threads_; }

  /// The name of this host as MPI knows it.
  std::string host() const;

  /// The first line of what the MPI library says of itself.
  std::string version() const;

  /// Where this rank stands among those of its host (which share memory). Collective.
  HostPlace host_place() const;

  /// Blocks up to this size go by MPI's own collective; larger ones in pieces of it, rank by rank:
  /// MPI counts in int, and a piece is what progress is told by.
  static constexpr std::int64_t piece_bytes = std::int64_t{64} << 20;

  /// All ranks of the launch, over a communicator of their own. Collective.
  std::unique_ptr<Group> world(std::int64_t piece = piece_bytes) const;

  /// Ends every rank of the launch with this exit code.
  [[noreturn]] void abort(int code) const;

 private:
  bool many_threads_ = false;
  int exceptions_ = 0;
};

}  // namespace slicecheck::group
