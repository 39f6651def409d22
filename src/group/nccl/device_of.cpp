#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/majority.h"
#include "group/nccl/nccl_group.h"

namespace slicecheck::group {

Result<int> device_of(const NcclOptions& options, int devices) {
  if (options.share_gpu) return options.host_rank % devices;
  // A launcher that binds each rank to one GPU shows it that one alone.
  if (devices == 1) return 0;
  if (options.host_rank < devices) return options.host_rank;
  return Reason(fmt::format("this host has {} ranks and {} GPUs: rank {} of the host has none",
                            options.host_ranks, devices, options.host_rank),
                "no-device");
}

Reason shared_gpu(const std::vector<RankGpu>& gpus) {
  std::map<std::string, std::size_t> holder;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    const auto [at, fresh] = holder.emplace(gpus[rank].uuid, rank);
    if (fresh) continue;
    return Reason(
        fmt::format("ranks {} and {} are on the same GPU, {}", at->second, rank, gpus[rank].bus_id),
        "duplicate-gpu");
  }
  return {};
}

std::string nccl_version_text(int version) {
  // Before 2.9 a minor had two digits: 2804 was 2.8.4.
  if (version < 10000) {
    return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  }
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Reason unequal_versions(const std::vector<int>& versions) {
  if (versions.empty()) return {};
  const int most = majority(versions);
  std::vector<std::string> apart;
  for (const auto& [version, ranks] : others(versions, most)) {
    apart.push_back(fmt::format("rank{} {} ha{} {}", ranks.size() == 1 ? "" : "s",
                                fmt::join(ranks, ", "), ranks.size() == 1 ? "s" : "ve",
                                nccl_version_text(version)));
  }
  if (apart.empty()) return {};
  return Reason(fmt::format("NCCL versions differ: most ranks have {}, but {}",
                            nccl_version_text(most), fmt::join(apart, ", ")),
                "version-skew");
}

}  // namespace slicecheck::group
