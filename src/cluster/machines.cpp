#include "cluster/machines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/majority.h"

namespace slicecheck::cluster {
namespace {

// Open MPI 4.1's transport within a host makes a file of so many bytes a rank.
constexpr std::int64_t segment_bytes = std::int64_t{4} << 20;
constexpr std::int64_t files_a_rank = 2;  // to each other rank: one that goes, one that comes

constexpr std::string_view may_differ = "cuda_driver";  // any that is new enough will do

using Ranks = std::vector<int>;

/// "rank 1", "ranks 1, 2".
std::string named(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::map<std::string, Ranks> hosts_of(const std::vector<Machine>& machines) {
  std::map<std::string, Ranks> made;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    made[machines[rank].host].push_back(static_cast<int>(rank));
  }
  return made;
}

std::int64_t items(const std::vector<Machine>& machines) { return std::ssize(machines); }

Said hosts(const std::vector<Machine>& machines) {
  const auto by_host = hosts_of(machines);
  std::set<std::size_t> sizes;
  for (const auto& [host, ranks] : by_host) sizes.insert(ranks.size());
  return {"launch.hosts",
          items(machines),
          0,
          fmt::format("{} ranks on {} host{}, {} to {} a host", machines.size(), by_host.size(),
                      by_host.size() == 1 ? "" : "s", *sizes.begin(), *sizes.rbegin()),
          {},
          {}};
}

Said versions(const std::vector<Machine>& machines) {
  Said made{"launch.versions", items(machines), 0, {}, {}, {}};
  std::set<std::string> names;
  for (const Machine& each : machines) {
    for (const auto& [name, version] : each.versions) names.insert(name);
  }
  std::set<int> apart;
  for (const std::string& name : names) {
    std::vector<std::string> held;
    for (const Machine& each : machines) {
      const auto at = each.versions.find(name);
      held.push_back(at == each.versions.end() ? "none" : at->second);
    }
    const std::string most = majority(held);
    const Ranks few = minority(held, most);
    if (few.empty()) continue;
    apart.insert(few.begin(), few.end());
    made.faults.push_back({"version-skew", few,
                           fmt::format("versions of {} differ: most ranks have {}, but {} {}", name,
                                       most, named(few), held[few.front()]),
                           name == may_differ});
  }
  made.differing = std::ssize(apart);
  made.text = fmt::format("{}", fmt::join(names, ", "));
  return made;
}

/// A limit of which each rank has enough or not.
Said limit(std::string id, std::string text, const std::vector<Machine>& machines,
           const std::function<bool(const Machine&)>& enough,
           const std::function<std::string(const Machine&)>& lack) {
  Said made{std::move(id), items(machines), 0, std::move(text), {}, {}};
  Ranks few;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    if (!enough(machines[rank])) few.push_back(static_cast<int>(rank));
  }
  made.differing = std::ssize(few);
  if (few.empty()) return made;
  made.faults.push_back(
      {"limits-too-low", few, fmt::format("{}: {}", named(few), lack(machines[few.front()]))});
  return made;
}

Said files(const std::vector<Machine>& machines) {
  const std::int64_t more = files_a_rank * items(machines);
  return limit(
      "limits.files", fmt::format("{} more are needed", more), machines,
      [=](const Machine& each) {
        return each.files_limit == unlimited || each.files_limit >= each.files_open + more;
      },
      [=](const Machine& each) {
        return fmt::format("{} files may be open (ulimit -n), {} are, and {} ranks need {} more",
                           each.files_limit, each.files_open, items(machines), more);
      });
}

Said locked(const std::vector<Machine>& machines, std::int64_t moved_bytes) {
  const bool any =
      std::any_of(machines.begin(), machines.end(), [](const Machine& each) { return each.rdma; });
  Said made = limit(
      "limits.locked", "for RDMA", machines,
      [=](const Machine& each) {
        return !each.rdma || each.locked_limit == unlimited || each.locked_limit >= moved_bytes;
      },
      [=](const Machine& each) {
        return fmt::format(
            "{} bytes of memory may be locked (ulimit -l), and RDMA locks the {} bytes that a rank "
            "moves",
            each.locked_limit, moved_bytes);
      });
  if (!any) made.skipped = "no rank sees an RDMA device";
  return made;
}

Said shared(const std::vector<Machine>& machines) {
  std::map<std::string, Ranks> by_host = hosts_of(machines);
  return limit(
      "limits.shared", "/dev/shm", machines,
      [&](const Machine& each) {
        const std::int64_t needed = segment_bytes * std::ssize(by_host[each.host]);
        return each.shared_free == unlimited || each.shared_free >= needed;
      },
      [&](const Machine& each) {
        return fmt::format("{} bytes are free in /dev/shm of {}, and {} ranks there need {}",
                           each.shared_free, each.host, by_host[each.host].size(),
                           segment_bytes * std::ssize(by_host[each.host]));
      });
}

Said processors(const std::vector<Machine>& machines) {
  Said made{"limits.processors", items(machines), 0, "one a rank", {}, {}};
  for (const auto& [host, ranks] : hosts_of(machines)) {
    std::set<int> cpus;
    for (const int rank : ranks)
      cpus.insert(machines[rank].cpus.begin(), machines[rank].cpus.end());
    if (cpus.empty() || cpus.size() >= ranks.size()) continue;
    made.differing += std::ssize(ranks);
    made.faults.push_back({"limits-too-low", ranks,
                           fmt::format("{} ranks of {} share {} processor{}", ranks.size(), host,
                                       cpus.size(), cpus.size() == 1 ? "" : "s"),
                           true});
  }
  return made;
}

}  // namespace

std::vector<Said> of_machines(const std::vector<Machine>& machines, std::int64_t moved_bytes) {
  return {hosts(machines),  versions(machines),  files(machines), locked(machines, moved_bytes),
          shared(machines), processors(machines)};
}

Said near_devices(const std::vector<Machine>& machines) {
  Said made{"devices.near", 0, 0, {}, {}, {}};
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const Machine& each = machines[rank];
    if (each.device_node < 0 || each.nodes.empty()) continue;
    ++made.compared;
    const auto at = std::find(each.nodes.begin(), each.nodes.end(), each.device_node);
    if (at != each.nodes.end()) continue;
    ++made.differing;
    made.text += fmt::format("{}rank {} runs on NUMA node {}, its GPU {} is at node {}",
                             made.text.empty() ? "" : "; ", rank, fmt::join(each.nodes, ", "),
                             each.device, each.device_node);
  }
  if (made.compared == 0) made.skipped = "no rank has a GPU of which the system says where it is";
  return made;
}

}  // namespace slicecheck::cluster
