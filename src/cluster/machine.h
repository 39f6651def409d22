// What a rank sees of the machine that it was put on. Every rank tells the others, so that all can
// be held against each other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace slicecheck::cluster {

inline constexpr std::int64_t unlimited = -1;

struct Machine {
  std::string host;
  std::string boot;  // of the system that runs there: hosts of one name are told apart by it
  std::map<std::string, std::string> versions;  // of what must be alike on all ranks, by name
  std::vector<int> cpus;                        // that this process may run on
  std::vector<int> nodes;                       // NUMA nodes of these
  std::int64_t files_limit = 0;  // descriptors that this process may have, or unlimited
  std::int64_t files_open = 0;
  std::int64_t locked_limit = 0;  // bytes of memory that may be locked, or unlimited
  std::int64_t shared_free = 0;   // bytes in /dev/shm; unlimited where there is none to ask
  bool rdma = false;              // an RDMA device is there
  std::string device;             // bus id of the GPU that this rank takes; empty: none
  int device_node = -1;           // its NUMA node; -1: not known
  std::string no_device;          // why this rank takes none

  bool operator==(const Machine&) const = default;
};

/// This process's machine, as far as the system says it; `host`, `versions` and the device are the
/// caller's to say.
Machine machine_here();

/// What tells this machine's host from others, also from one of the same name.
std::string place_of(const Machine& machine);

/// The NUMA node of the device at this bus id ("0000:3B:00.0"); -1 where the system does not know.
int node_of_device(const std::string& bus_id);

/// The numbers of a list as the kernel writes it: "0-3,8" is 0, 1, 2, 3, 8. What is no list ends
/// it.
std::vector<int> numbers_of(const std::string& list);

/// A machine as a text of lines, and what such a text says.
std::string written(const Machine& machine);
Machine read(const std::string& text);

}  // namespace slicecheck::cluster
