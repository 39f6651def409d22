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
constexpr std::int64_t files_a_rank = 1;  // a connection to each

constexpr std::string_view may_differ = "cuda_driver";  // any that is new enough will do

using Ranks = std::vector<int>;

/// "rank 1", "ranks 1, 2".
std::string named(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::map<std::string, Ranks> hosts_of(const std::vector<Machine>& machines) {
  std::map<std::string, Ranks> made;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    made[place_of(machines[rank])].push_back(static_cast<int>(rank));
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
    std::vector<std::string> texts;
    for (const auto& [version, ranks] : others(held, most)) {
      texts.push_back(fmt::format("{} {}", named(ranks), version));
    }
    made.faults.push_back({"version-skew", few,
                           fmt::format("versions of {} differ: most ranks have {}, but {}", name,
                                       most, fmt::join(texts, ", ")),
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
  const bool one_host = hosts_of(machines).size() == 1;
  for (Fault& fault : made.faults) fault.warning = one_host;
  return made;
}

Said shared(const std::vector<Machine>& machines) {
  std::map<std::string, Ranks> by_host = hosts_of(machines);
  return limit(
      "limits.shared", "/dev/shm", machines,
      [&](const Machine& each) {
        const std::int64_t needed = segment_bytes * std::ssize(by_host[place_of(each)]);
        return each.shared_free == unlimited || each.shared_free >= needed;
      },
      [&](const Machine& each) {
        return fmt::format("{} bytes are free in /dev/shm of {}, and {} ranks there need {}",
                           each.shared_free, each.host, by_host[place_of(each)].size(),
                           segment_bytes * std::ssize(by_host[place_of(each)]));
      });
}

/// Ranks of a host that may run on the same processors, and are more than these.
Said processors(const std::vector<Machine>& machines) {
  Said made{"limits.processors", items(machines), 0, "one a rank", {}, {}};
  std::map<std::pair<std::string, std::vector<int>>, Ranks> sharing;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const Machine& each = machines[rank];
    sharing[{place_of(each), each.cpus}].push_back(static_cast<int>(rank));
  }
  for (const auto& [shared, ranks] : sharing) {
    const std::size_t cpus = shared.second.size();
    if (cpus == 0 || cpus >= ranks.size()) continue;
    made.differing += std::ssize(ranks);
    made.faults.push_back({"limits-too-low", ranks,
                           fmt::format("{} ranks of {} share {} processor{}", ranks.size(),
                                       machines[ranks.front()].host, cpus, cpus == 1 ? "" : "s"),
                           true});
  }
  return made;
}

}  // namespace

std::vector<Said> of_machines(const std::vector<Machine>& machines, std::int64_t moved_bytes,
                              bool threads) {
  std::vector<Said> made{hosts(machines), versions(machines)};
  for (Said each : {files(machines), locked(machines, moved_bytes), shared(machines)}) {
    if (threads) each = {each.id, 0, 0, {}, {}, "ranks are threads of one process"};
    made.push_back(std::move(each));
  }
  made.push_back(processors(machines));
  return made;
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
