#include "cluster/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace slicecheck::cluster {
namespace {

constexpr int number_max = 1 << 16;  // of a processor or a node: beyond it a list is none
constexpr const char* nodes_folder = "/sys/devices/system/node";

std::int64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t entries_in(const char* folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  return error ? 0 : std::distance(begin(entries), end(entries));
}

std::vector<int> own_cpus() {
  std::vector<int> made;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return made;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) made.push_back(cpu);
  }
  return made;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

bool share_one(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int each) { return std::find(b.begin(), b.end(), each) != b.end(); });
}

std::vector<int> nodes_of(const std::vector<int>& cpus) {
  std::set<int> made;
  for (const int node : numbers_of(first_line(fmt::format("{}/online", nodes_folder)))) {
    const std::string list = first_line(fmt::format("{}/node{}/cpulist", nodes_folder, node));
    if (share_one(numbers_of(list), cpus)) made.insert(node);
  }
  return {made.begin(), made.end()};
}

/// CAP_IPC_LOCK, which root in a container may lack.
bool may_lock_all() {
  constexpr int ipc_lock = 14;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("CapEff:")) continue;
    const std::uint64_t held = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    return (held >> ipc_lock & 1) != 0;
  }
  return false;
}

std::int64_t shared_free() {
  struct statvfs about {};
  // One without a limit says that it has no blocks.
  if (::statvfs("/dev/shm", &about) != 0 || about.f_blocks == 0) return unlimited;
  return static_cast<std::int64_t>(about.f_bavail) * static_cast<std::int64_t>(about.f_frsize);
}

}  // namespace

Machine machine_here() {
  Machine made;
  made.boot = first_line("/proc/sys/kernel/random/boot_id");
  made.cpus = own_cpus();
  made.nodes = nodes_of(made.cpus);
  made.files_limit = limit_of(RLIMIT_NOFILE);
  made.files_open = entries_in("/proc/self/fd");
  // Not known, unless it is because not even this one can be opened.
  if (made.files_open == 0 && errno == EMFILE) made.files_open = made.files_limit;
  if (made.files_open == 0) made.files_limit = unlimited;
  made.locked_limit = may_lock_all() ? unlimited : limit_of(RLIMIT_MEMLOCK);
  made.shared_free = shared_free();
  made.rdma = entries_in("/sys/class/infiniband") > 0;
  return made;
}

std::string place_of(const Machine& machine) { return machine.host + " " + machine.boot; }

int node_of_device(const std::string& bus_id) {
  std::string name = bus_id;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  int node = -1;
  std::ifstream(fmt::format("/sys/bus/pci/devices/{}/numa_node", name)) >> node;
  return node;
}

std::vector<int> numbers_of(const std::string& list) {
  std::vector<int> made;
  std::istringstream words(list);
  for (int first = 0; words >> first;) {
    int last = first;
    if (words.peek() == '-' && !(words.ignore() >> last)) break;
    if (first < 0 || last < first || last > number_max) break;
    for (int each = first; each <= last; ++each) made.push_back(each);
    if (words.get() != ',') break;
  }
  return made;
}

std::string written(const Machine& machine) {
  std::string made = fmt::format(
      "host {}\nboot {}\ncpus {}\nnodes {}\nfiles_limit {}\nfiles_open {}\nlocked_limit {}\n"
      "shared_free {}\nrdma {}\ndevice {}\ndevice_node {}\n"
      "no_device {}\n",
      machine.host, machine.boot, fmt::join(machine.cpus, ","), fmt::join(machine.nodes, ","),
      machine.files_limit, machine.files_open, machine.locked_limit, machine.shared_free,
      machine.rdma ? 1 : 0, machine.device, machine.device_node, machine.no_device);
  for (const auto& [name, version] : machine.versions) {
    made += fmt::format("version {} {}\n", name, version);
  }
  return made;
}

Machine read(const std::string& text) {
  Machine made;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string key = line.substr(0, space);
    const std::string value = line.substr(std::min(space + 1, line.size()));
    std::istringstream words(value);
    if (key == "host") made.host = value;
    if (key == "boot") made.boot = value;
    if (key == "cpus") made.cpus = numbers_of(value);
    if (key == "nodes") made.nodes = numbers_of(value);
    if (key == "files_limit") words >> made.files_limit;
    if (key == "files_open") words >> made.files_open;
    if (key == "locked_limit") words >> made.locked_limit;
    if (key == "shared_free") words >> made.shared_free;
    if (key == "rdma") words >> made.rdma;
    if (key == "device") made.device = value;
    if (key == "device_node") words >> made.device_node;
    if (key == "no_device") made.no_device = value;
    if (key != "version") continue;
    const std::size_t name = std::min(value.find(' '), value.size());
    made.versions[value.substr(0, name)] = value.substr(std::min(name + 1, value.size()));
  }
  return made;
}

}  // namespace slicecheck::cluster
