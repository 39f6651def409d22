// Ranks whose payload lies in device memory and moves by NCCL; what is small and host's (least,
// share, broadcast) goes by the group that they came from. Built without NCCL, the same function
// says so: whoever calls it needs no #if.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "group/group.h"
#include "group/watch/aborts.h"
#include "memory/cuda/device.h"

namespace slicecheck::group {

/// How ranks come to their devices. `host_rank` of `host_ranks` is this rank's place on its host.
struct NcclOptions {
  int host_rank = 0;
  int host_ranks = 1;
  int color = 0;           // ranks of equal color are a group
  bool share_gpu = false;  // several ranks on one GPU, over loopback: slow, for development
  std::chrono::milliseconds limit = std::chrono::minutes(2);  // of one call, from its start
  Aborts* aborts = nullptr;  // what a run that ends before its end calls; outlives the group
};

/// The device of a rank: its host rank's number, or the only one that it sees. Refuses when there
/// are too few; several ranks of a host on the only one share it where `share_gpu` says so.
Result<int> device_of(const NcclOptions& options, int devices);

/// Why a rank's GPU is another rank's too: both ranks and the bus id named; or nothing. By rank:
/// the uuid and the bus id.
struct RankGpu {
  std::string uuid;
  std::string bus_id;
};
Reason shared_gpu(const std::vector<RankGpu>& gpus);

/// Why the ranks' NCCL libraries are not one version, with the ranks of the minority; or nothing.
Reason unequal_versions(const std::vector<int>& versions);

/// 22809 as "2.28.9".
std::string nccl_version_text(int version);

/// The version of the NCCL library, 0 in a build without it.
int nccl_version();

/// This rank's device and a communicator over the ranks of `control` that have its color, in their
/// order. Collective over `control`. Refuses together when: a rank has no device, two ranks have
/// one, the NCCL versions differ, or the communicator does not come up. A rank that dies or stalls
/// in a later call ends the group: Lost on every other rank within the limit. A fault of a rank's
/// device is Lost on that rank, and on the others as if it had died.
std::unique_ptr<Group> nccl_group(Group& control, const NcclOptions& options);

}  // namespace slicecheck::group
