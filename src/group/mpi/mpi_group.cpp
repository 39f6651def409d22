#include "group/mpi/mpi_group.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "base/must.h"
#include "group/agree.h"

namespace slicecheck::group {
namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  lose(world_rank(), fmt::format("{} failed on rank {}: {}", call, world_rank(), text));
}

/// A communicator that this object frees.
class Communicator {
 public:
  explicit Communicator(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~Communicator() { MPI_Comm_free(&comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  MPI_Comm get() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 0;
};

class MpiGroup final : public Group {
 public:
  MpiGroup(MPI_Comm comm, std::int64_t piece)
      : comm_(comm), piece_(piece), space_(memory::host_space()) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string_view name() const override { return "mpi"; }
  memory::Space& space() override { return *space_; }

  std::int64_t least(std::int64_t value) override {
    std::int64_t least = 0;
    check(MPI_Allreduce(&value, &least, 1, MPI_INT64_T, MPI_MIN, comm_.get()), "MPI_Allreduce");
    return least;
  }

  void share(Bytes mine, MutableBytes all) override {
    must(all.size() == mine.size() * size(), "share: room for other than every rank's bytes");
    all_gather(all.data(), mine.data(), std::ssize(mine));
  }

  void broadcast(MutableBytes bytes, int root) override {
    for (std::int64_t at = 0; at < std::ssize(bytes); at += piece_) {
      check(
          MPI_Bcast(bytes.data() + at, count(std::ssize(bytes) - at), MPI_BYTE, root, comm_.get()),
          "MPI_Bcast");
    }
  }

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    if (block_bytes <= piece_) {
      check(MPI_Alltoall(sent, count(block_bytes), MPI_BYTE, received, count(block_bytes), MPI_BYTE,
                         comm_.get()),
            "MPI_Alltoall");
      return;
    }
    for (int step = 0; step < size(); ++step) {
      const Pair pair = pair_of(step);
      send_and_receive(received + pair.source * block_bytes, sent + pair.dest * block_bytes,
                       block_bytes, pair);
    }
  }

  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    for (int step = 1; step < size(); ++step) {
      const Pair pair = pair_of(step);
      send_and_receive(received + pair.source * block_bytes, sent + pair.dest * block_bytes,
                       block_bytes, pair);
    }
  }

  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    if (block_bytes <= piece_) {
      check(MPI_Allgather(sent, count(block_bytes), MPI_BYTE, received, count(block_bytes),
                          MPI_BYTE, comm_.get()),
            "MPI_Allgather");
      return;
    }
    for (int step = 0; step < size(); ++step) {
      const Pair pair = pair_of(step);
      send_and_receive(received + pair.source * block_bytes, sent, block_bytes, pair);
    }
  }

  std::unique_ptr<Group> split(int color) override {
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(comm_.get(), color, rank(), &part), "MPI_Comm_split");
    return std::make_unique<MpiGroup>(part, piece_);
  }

 private:
  /// Whom a rank sends to and receives from in one step of an exchange.
  struct Pair {
    int dest = 0;
    int source = 0;
  };

  Pair pair_of(int step) const {
    return {(rank() + step) % size(), (rank() - step + size()) % size()};
  }

  int count(std::int64_t bytes) const { return static_cast<int>(std::min(bytes, piece_)); }

  void send_and_receive(std::uint8_t* received, const std::uint8_t* sent, std::int64_t bytes,
                        const Pair& pair) {
    for (std::int64_t at = 0; at < bytes; at += piece_) {
      const int part = count(bytes - at);
      check(MPI_Sendrecv(sent + at, part, MPI_BYTE, pair.dest, 0, received + at, part, MPI_BYTE,
                         pair.source, 0, comm_.get(), MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
    }
  }

  Communicator comm_;
  std::int64_t piece_;
  std::unique_ptr<memory::Space> space_;
};

}  // namespace

Session::Session() : exceptions_(std::uncaught_exceptions()) {
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  many_threads_ = provided == MPI_THREAD_MULTIPLE;
}

Session::~Session() {
  if (std::uncaught_exceptions() == exceptions_) MPI_Finalize();
}

std::string Session::host() const {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  return name;
}

std::string Session::version() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string whole(text);
  return whole.substr(0, whole.find_first_of(",\n"));
}

HostPlace Session::host_place() const {
  MPI_Comm shared = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank(), MPI_INFO_NULL,
                            &shared),
        "MPI_Comm_split_type");
  const Communicator host(shared);
  return {host.rank(), host.size()};
}

std::unique_ptr<Group> Session::world(std::int64_t piece) const {
  must(piece > 0 && piece <= piece_bytes, "a piece that MPI cannot count");
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return std::make_unique<MpiGroup>(comm, piece);
}

void Session::abort(int code) const {
  // A multiple of 256 would leave the launcher with status 0.
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace slicecheck::group
