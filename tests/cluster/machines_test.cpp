// Machines of ranks held against each other: whatever differs is named with the few that differ,
// and what is alike or enough is not.
#include "cluster/machines.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace slicecheck::cluster {
namespace {

constexpr std::int64_t moved_bytes = std::int64_t{64} << 20;

/// Ranks of two hosts, half on each, that lack nothing.
std::vector<Machine> healthy(int ranks) {
  std::vector<Machine> made;
  for (int rank = 0; rank < ranks; ++rank) {
    Machine each;
    each.host = rank < ranks / 2 ? "one" : "two";
    each.versions = {{"mpi", "Open MPI v4.1.4"}, {"nccl", "2.28.9"}, {"cuda_driver", "13.0"}};
    for (int cpu = 0; cpu < 16; ++cpu) each.cpus.push_back(cpu);
    each.nodes = {rank % 2};
    each.files_limit = 1024;
    each.files_open = 40;
    each.locked_limit = unlimited;
    each.shared_free = std::int64_t{1} << 30;
    each.device = "0000:3B:00.0";
    each.device_node = rank % 2;
    made.push_back(each);
  }
  return made;
}

Said said(const std::vector<Said>& all, const std::string& id) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Said& each) { return each.id == id; });
  EXPECT_NE(at, all.end()) << id;
  return *at;
}

/// The one fault of check `id`, when `spoil` was done to healthy machines; all other checks hold.
template <typename Spoil>
Fault fault(const std::string& id, Spoil spoil) {
  std::vector<Machine> machines = healthy(6);
  spoil(machines);
  const std::vector<Said> all = of_machines(machines, moved_bytes);
  for (const Said& each : all) {
    EXPECT_TRUE(each.id == id || each.faults.empty()) << each.id;
  }
  const Said found = said(all, id);
  EXPECT_EQ(found.faults.size(), 1U);
  EXPECT_EQ(found.differing, std::ssize(found.faults.at(0).ranks));
  return found.faults.at(0);
}

TEST(Machines, that_lack_nothing_are_not_named) {
  for (const int ranks : {1, 2, 6, 16}) {
    for (const Said& each : of_machines(healthy(ranks), moved_bytes)) {
      EXPECT_TRUE(each.faults.empty()) << each.id;
      EXPECT_EQ(each.differing, 0) << each.id;
      EXPECT_EQ(each.compared, ranks) << each.id;
    }
    EXPECT_EQ(near_devices(healthy(ranks)).differing, 0);
  }
}

TEST(Machines, another_version_is_named_with_the_few_that_have_it) {
  const Fault found = fault("launch.versions", [](std::vector<Machine>& all) {
    all[1].versions["nccl"] = "2.18.5";
    all[4].versions["nccl"] = "2.18.5";
  });
  EXPECT_EQ(found.cause, "version-skew");
  EXPECT_EQ(found.ranks, (std::vector{1, 4}));
  EXPECT_EQ(found.text, "versions of nccl differ: most ranks have 2.28.9, but ranks 1, 4 2.18.5");
  EXPECT_FALSE(found.warning);
}

TEST(Machines, of_three_versions_each_is_named_with_its_ranks) {
  const Fault found = fault("launch.versions", [](std::vector<Machine>& all) {
    all[1].versions["nccl"] = "2.18.5";
    all[4].versions.erase("nccl");
  });
  EXPECT_EQ(found.ranks, (std::vector{1, 4}));
  EXPECT_EQ(found.text,
            "versions of nccl differ: most ranks have 2.28.9, but rank 1 2.18.5, rank 4 none");
}

TEST(Machines, a_version_that_one_does_not_have_differs_too) {
  const Fault found =
      fault("launch.versions", [](std::vector<Machine>& all) { all[5].versions.erase("mpi"); });
  EXPECT_EQ(found.ranks, std::vector{5});
  EXPECT_NE(found.text.find("but rank 5 none"), std::string::npos);
}

TEST(Machines, another_driver_is_a_warning) {
  const Fault found = fault("launch.versions", [](std::vector<Machine>& all) {
    all[2].versions["cuda_driver"] = "12.8";
  });
  EXPECT_TRUE(found.warning);
}

TEST(Machines, too_few_files_are_said_with_what_is_needed) {
  const Fault enough_but_one =
      fault("limits.files", [](std::vector<Machine>& all) { all[3].files_limit = 40 + 6 - 1; });
  EXPECT_EQ(enough_but_one.cause, "limits-too-low");
  EXPECT_EQ(enough_but_one.ranks, std::vector{3});
  std::vector<Machine> machines = healthy(6);
  machines[3].files_limit = 40 + 6;
  machines[4].files_limit = unlimited;
  EXPECT_TRUE(said(of_machines(machines, moved_bytes), "limits.files").faults.empty());
}

TEST(Machines, memory_that_cannot_be_locked_matters_where_rdma_is) {
  const auto low = [](std::vector<Machine>& all) {
    for (Machine& each : all) each.locked_limit = moved_bytes - 1;
  };
  std::vector<Machine> machines = healthy(6);
  low(machines);
  EXPECT_NE(said(of_machines(machines, moved_bytes), "limits.locked").skipped, "");
  const Fault found = fault("limits.locked", [&](std::vector<Machine>& all) {
    low(all);
    all[2].rdma = true;
  });
  EXPECT_EQ(found.ranks, std::vector{2});
  EXPECT_FALSE(found.warning);
  // Within one host it is not needed.
  for (Machine& each : machines) each.host = "one";
  machines[2].rdma = true;
  EXPECT_TRUE(said(of_machines(machines, moved_bytes), "limits.locked").faults.at(0).warning);
}

TEST(Machines, of_one_name_are_hosts_of_their_own_by_what_runs_there) {
  std::vector<Machine> machines = healthy(6);
  for (std::size_t rank = 0; rank < 6; ++rank) {
    machines[rank].host = "localhost";
    machines[rank].boot = std::to_string(rank / 3);
    machines[rank].shared_free = 12 << 20;
  }
  const std::vector<Said> all = of_machines(machines, moved_bytes);
  EXPECT_EQ(said(all, "launch.hosts").text, "6 ranks on 2 hosts, 3 to 3 a host");
  EXPECT_TRUE(said(all, "limits.shared").faults.empty());
}

TEST(Machines, of_threads_have_no_limits_of_processes) {
  std::vector<Machine> machines = healthy(6);
  for (Machine& each : machines) each.shared_free = 0;
  machines[1].files_limit = 1;
  for (const Said& each : of_machines(machines, moved_bytes, true)) {
    EXPECT_TRUE(each.faults.empty()) << each.id;
  }
}

TEST(Machines, shared_memory_is_counted_by_host) {
  const Fault found = fault("limits.shared", [](std::vector<Machine>& all) {
    for (int rank = 3; rank < 6; ++rank) all[rank].shared_free = (12 << 20) - 1;
  });
  EXPECT_EQ(found.ranks, (std::vector{3, 4, 5}));
  EXPECT_NE(found.text.find("of two, and 3 ranks there need 12582912"), std::string::npos);
}

TEST(Machines, ranks_that_share_processors_are_warned_of) {
  const Fault found = fault("limits.processors", [](std::vector<Machine>& all) {
    for (int rank = 0; rank < 3; ++rank) all[rank].cpus = {0, 1};
  });
  EXPECT_TRUE(found.warning);
  EXPECT_EQ(found.ranks, (std::vector{0, 1, 2}));
  EXPECT_EQ(found.text, "3 ranks of one share 2 processors");
}

TEST(Machines, a_gpu_at_another_node_is_told) {
  std::vector<Machine> machines = healthy(4);
  machines[1].device_node = 0;
  const Said found = near_devices(machines);
  EXPECT_EQ(found.differing, 1);
  EXPECT_EQ(found.text, "rank 1 runs on NUMA node 1, its GPU 0000:3B:00.0 is at node 0");
  for (Machine& each : machines) each.device_node = -1;
  EXPECT_NE(near_devices(machines).skipped, "");
}

TEST(Machines, say_all_of_themselves) {
  Machine machine = healthy(2)[1];
  machine.rdma = true;
  machine.nodes = {0, 1};
  machine.cpus = {0, 3};
  EXPECT_EQ(read(written(machine)), machine);
  machine.boot = "a-b";
  EXPECT_EQ(read(written(machine)), machine);
  machine.no_device = "this host has 2 ranks and 1 GPUs";
  machine.device.clear();
  machine.nodes.clear();
  EXPECT_EQ(read(written(machine)), machine);
}

TEST(Machines, lists_of_the_kernel_are_read_and_others_are_not) {
  EXPECT_EQ(numbers_of("0-3,8"), (std::vector{0, 1, 2, 3, 8}));
  EXPECT_EQ(numbers_of("5\n"), std::vector{5});
  for (const char* text : {"", "x", "-", "0-", "3-1", "0-9999999", "-1"}) {
    EXPECT_LE(numbers_of(text).size(), 1U) << text;
  }
}

TEST(Machines, this_one_has_a_processor_and_files) {
  const Machine machine = machine_here();
  EXPECT_FALSE(machine.cpus.empty());
  EXPECT_GT(machine.files_open, 0);
  EXPECT_TRUE(machine.files_limit == unlimited || machine.files_limit > machine.files_open);
}

}  // namespace
}  // namespace slicecheck::cluster
