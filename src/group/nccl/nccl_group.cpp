#include "group/nccl/nccl_group.h"

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nccl.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/must.h"
#include "group/agree.h"
#include "group/shared.h"

namespace slicecheck::group {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view refusal = "cannot use the NCCL transport";

bool going(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

std::string failed(ncclResult_t status, std::string_view call) {
  return fmt::format("{} failed: {}", call, ncclGetErrorString(status));
}

/// NCCL's handle, shared by the rank that uses it and the end of the run. A rank whose communicator
/// has been cut off stays where it is: its process is about to leave.
class Handle {
 public:
  /// Calls `act` with the communicator, or never returns.
  template <typename Act>
  ncclResult_t use(Act act) {
    const std::unique_lock lock(mutex_);
    if (!cut_off_) return act(comm_);
    for (;;) ::pause();
  }

  /// The communicator (null: there is none), which is whoever's it is now.
  ncclComm_t taken() {
    const std::lock_guard lock(mutex_);
    return std::exchange(comm_, nullptr);
  }

  /// From the end of the run. A rank that is inside NCCL and does not come out of it keeps its
  /// communicator; the end of the process takes it down.
  void cut_off() {
    std::unique_lock lock(mutex_, cutting_limit);
    if (!lock) return;
    cut_off_ = true;
    ncclComm_t comm = std::exchange(comm_, nullptr);
    lock.unlock();
    if (comm != nullptr) ncclCommAbort(comm);
  }

 private:
  static constexpr std::chrono::milliseconds cutting_limit{200};
  std::timed_mutex mutex_;
  ncclComm_t comm_ = nullptr;
  bool cut_off_ = false;
};

/// A communicator whose every call has a deadline, and which is aborted when one is missed.
class Communicator {
 public:
  Communicator(int rank, const NcclOptions& options)
      : rank_(rank), limit_(options.limit), exceptions_(std::uncaught_exceptions()) {
    if (options.aborts != nullptr) {
      abort_ = options.aborts->add([handle = handle_] { handle->cut_off(); });
    }
  }

  // A rank that leaves by an exception leaves alone: nothing may wait for the others.
  ~Communicator() {
    bool fit = std::uncaught_exceptions() == exceptions_ && !none();
    begin("the end of the communicator");
    fit = fit && !waited(use([](ncclComm_t comm) { return ncclCommFinalize(comm); }));
    ncclComm_t comm = handle_->taken();
    if (comm == nullptr) return;
    if (fit) {
      ncclCommDestroy(comm);
    } else {
      ncclCommAbort(comm);
    }
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Why the communicator does not come up, or nothing.
  Reason start(int ranks, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    begin("ncclCommInitRankConfig");
    return waited(use([&](ncclComm_t& comm) {
      return ncclCommInitRankConfig(&comm, ranks, id, rank_, &config);
    }));
  }

  /// Names the call that is under way; its deadline starts.
  void begin(std::string_view call) {
    call_ = call;
    begun_ = Clock::now();
  }

  /// Makes the call that was begun, of this communicator: it is enqueued when this returns.
  template <typename Act>
  void call(Act act) {
    const Reason reason = waited(use(act));
    if (reason) end(reason.text());
  }

  /// While its work is waited for: ends the group when the communicator has failed or is late.
  void watch(std::chrono::milliseconds waited) {
    if (none()) return;
    const Reason reason = trouble(waited);
    if (reason) end(reason.text());
  }

  /// Ends the group for what is wrong with this rank.
  [[noreturn]] void end(const std::string& text) {
    if (ncclComm_t comm = handle_->taken(); comm != nullptr) ncclCommAbort(comm);
    lose(rank_, fmt::format("rank {}: {}", rank_, text));
  }

 private:
  template <typename Act>
  ncclResult_t use(Act act) const {
    return handle_->use(act);
  }

  bool none() const {
    return use([](ncclComm_t comm) { return comm == nullptr ? ncclInvalidUsage : ncclSuccess; }) !=
           ncclSuccess;
  }

  /// What asking the communicator gave, and what it said of itself.
  struct Asked {
    ncclResult_t asking = ncclSuccess;
    ncclResult_t status = ncclSuccess;
  };

  Asked asked() const {
    Asked made;
    made.asking = use([&](ncclComm_t comm) { return ncclCommGetAsyncError(comm, &made.status); });
    return made;
  }

  Reason trouble(std::chrono::milliseconds waited) const {
    const auto [asking, status] = asked();
    if (asking != ncclSuccess) return Reason(failed(asking, "ncclCommGetAsyncError"));
    if (!going(status)) return Reason(failed(status, call_));
    if (waited < limit_) return {};
    return Reason(fmt::format("{} has not ended within {} ms", call_, limit_.count()));
  }

  Reason waited(ncclResult_t status) const {
    if (!going(status)) return Reason(failed(status, call_));
    must(!none(), "a communicator that was never made is waited for");
    for (;;) {
      const auto [asking, now] = asked();
      if (asking == ncclSuccess && now == ncclSuccess) return {};
      Reason reason =
          trouble(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun_));
      if (reason) return reason;
      std::this_thread::yield();
    }
  }

  int rank_;
  std::chrono::milliseconds limit_;
  int exceptions_;
  std::shared_ptr<Handle> handle_ = std::make_shared<Handle>();
  std::shared_ptr<const Aborts::Act> abort_;
  std::string call_;
  Clock::time_point begun_;
};

class NcclGroup final : public Group {
 public:
  NcclGroup(std::unique_ptr<Group> control, std::shared_ptr<memory::DeviceSpace> space,
            const NcclOptions& options)
      : owned_(std::move(control)),
        control_(*owned_),
        space_(std::move(space)),
        options_(options),
        communicator_(control_.rank(), options) {}

  ~NcclGroup() override {
    space_->watch({});
    space_->on_fault({});
  }

  /// Collective over `whole`, of which this group is a part: where one part does not come up, no
  /// rank goes on.
  void start(Group& whole) {
    ncclUniqueId id{};
    Reason reason;
    if (rank() == 0) {
      const ncclResult_t status = ncclGetUniqueId(&id);
      if (status != ncclSuccess) reason = Reason(failed(status, "ncclGetUniqueId"));
    }
    if (!agree(control_, reason)) {
      control_.broadcast({reinterpret_cast<std::uint8_t*>(&id), sizeof id}, 0);
      select();
      reason = communicator_.start(size(), id);
    }
    refuse_together(whole, reason, refusal);
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::string_view name() const override { return "nccl"; }
  memory::Space& space() override { return *space_; }

  std::int64_t least(std::int64_t value) override { return control_.least(value); }
  void share(Bytes mine, MutableBytes all) override { control_.share(mine, all); }
  void broadcast(MutableBytes bytes, int root) override { control_.broadcast(bytes, root); }

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    if (block_bytes == 0) return;
    select();
    communicator_.begin("the all-to-all");
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    communicator_.call([&](ncclComm_t comm) {
      return ncclAlltoAll(sent, received, static_cast<std::size_t>(block_bytes), ncclUint8, comm,
                          stream());
    });
#else
    in_one_call([&](ncclComm_t comm) { return pairs(received, sent, block_bytes, 0, comm); });
#endif
  }

  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    exchange({{received, sent, block_bytes}});
  }

  void exchange(const std::vector<Exchange>& exchanges) override {
    select();
    communicator_.begin("the all-to-all");
    in_one_call([&](ncclComm_t comm) {
      ncclResult_t status = ncclSuccess;
      for (const Exchange& each : exchanges) {
        if (each.block_bytes == 0 || !going(status)) continue;
        status = pairs(each.received, each.sent, each.block_bytes, 1, comm);
      }
      return status;
    });
  }

  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    all_gathers({{received, sent, block_bytes}});
  }

  void all_gathers(const std::vector<Gather>& gathers) override {
    select();
    communicator_.begin("the all-gather");
    in_one_call([&](ncclComm_t comm) {
      ncclResult_t status = ncclSuccess;
      for (const Gather& each : gathers) {
        if (each.block_bytes == 0 || !going(status)) continue;
        status = ncclAllGather(each.sent, each.received, static_cast<std::size_t>(each.block_bytes),
                               ncclUint8, comm, stream());
      }
      return status;
    });
  }

  std::unique_ptr<Group> split(int color) override {
    auto part = std::make_unique<NcclGroup>(control_.split(color), space_, options_);
    part->start(control_);
    return part;
  }

 private:
  cudaStream_t stream() { return static_cast<cudaStream_t>(space_->stream()); }

  // The device is the thread's, and whoever waits on the stream watches the communicator that was
  // used last: a part and its whole share one stream.
  void select() {
    const cudaError_t status = cudaSetDevice(space_->device().index);
    must(status == cudaSuccess, cudaGetErrorString(status));
    space_->watch([this](std::chrono::milliseconds waited) { communicator_.watch(waited); });
    space_->on_fault([this](const std::string& text) { communicator_.end(text); });
  }

  // What `give` gives to NCCL, as one call of it.
  template <typename Give>
  void in_one_call(Give give) {
    communicator_.call([&](ncclComm_t comm) {
      const ncclResult_t begun = ncclGroupStart();
      const ncclResult_t given = going(begun) ? give(comm) : begun;
      const ncclResult_t ended = ncclGroupEnd();
      return going(given) ? ended : given;
    });
  }

  // Rank r sends to r + step and receives from r - step, from `first` step on.
  ncclResult_t pairs(std::uint8_t* received, const std::uint8_t* sent, std::int64_t block_bytes,
                     int first, ncclComm_t comm) {
    const auto bytes = static_cast<std::size_t>(block_bytes);
    ncclResult_t status = ncclSuccess;
    for (int step = first; step < size() && going(status); ++step) {
      const int dest = (rank() + step) % size();
      const int source = (rank() - step + size()) % size();
      status = ncclSend(sent + dest * block_bytes, bytes, ncclUint8, dest, comm, stream());
      if (!going(status)) break;
      status = ncclRecv(received + source * block_bytes, bytes, ncclUint8, source, comm, stream());
    }
    return status;
  }

  std::unique_ptr<Group> owned_;
  Group& control_;
  std::shared_ptr<memory::DeviceSpace> space_;
  NcclOptions options_;
  Communicator communicator_;
};

// Ranks that share a GPU pass for ranks of different hosts, each with a GPU of its own: NCCL
// refuses two ranks of one host on one GPU.
void pass_for_another_host() {
  const std::string id = fmt::format("slicecheck-{}", getpid());
  setenv("NCCL_HOSTID", id.c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

/// This rank's device, or why it has none.
Result<std::unique_ptr<memory::DeviceSpace>> own_device(const NcclOptions& options) {
  const auto all = memory::devices();
  if (all.reason) return all.reason;
  const Result<int> index = device_of(options, static_cast<int>(all->size()));
  if (index.reason) return index.reason;
  return memory::device_space(*index);
}

Reason shared_gpu(Group& control, const memory::Device& device) {
  const std::vector<std::string> uuids = share_texts(control, device.uuid);
  const std::vector<std::string> buses = share_texts(control, device.bus_id);
  std::vector<RankGpu> gpus;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    gpus.push_back({uuids[rank], buses[rank]});
  }
  return group::shared_gpu(gpus);
}

Reason unequal_versions(Group& control) {
  return group::unequal_versions(shared(control, nccl_version()));
}

}  // namespace

int nccl_version() {
  int version = 0;
  ncclGetVersion(&version);
  return version;
}

std::unique_ptr<Group> nccl_group(Group& control, const NcclOptions& options) {
  auto space = own_device(options);
  refuse_together(control, space.reason, refusal);
  const memory::Device device = (*space)->device();
  const Reason twice = shared_gpu(control, device);
  refuse_together(control, options.share_gpu ? Reason() : twice, refusal);
  refuse_together(control, unequal_versions(control), refusal);
  if (options.share_gpu) pass_for_another_host();
  auto group =
      std::make_unique<NcclGroup>(control.split(options.color),
                                  std::shared_ptr<memory::DeviceSpace>(std::move(*space)), options);
  group->start(control);
  return group;
}

}  // namespace slicecheck::group
