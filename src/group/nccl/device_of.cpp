#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

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
  std::map<int, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < versions.size(); ++rank) {
    ranks[versions[rank]].push_back(rank);
  }
  if (ranks.size() <= 1) return {};
  // Most ranks' version; where two are held equally often, the lowest rank's.
  const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                              : a.second.front() > b.second.front();
  });
  std::vector<std::string> others;
  for (const auto& [version, held] : ranks) {
    if (version == most->first) continue;
    others.push_back(fmt::format("rank{} {} ha{} {}", held.size() == 1 ? "" : "s",
                                 fmt::join(held, ", "), held.size() == 1 ? "s" : "ve",
                                 nccl_version_text(version)));
  }
  return Reason(fmt::format("NCCL versions differ: most ranks have {}, but {}",
                            nccl_version_text(most->first), fmt::join(others, ", ")),
                "version-skew");
}

}  // namespace slicecheck::group
