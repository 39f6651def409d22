// The group of threads: the laws of every group, and that no rank is ever left waiting.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "group/agree.h"
#include "group/launch.h"
#include "group/local/local_group.h"
#include "tests/group/conformance.h"

namespace slicecheck::group {
namespace {

class LocalConformance : public testing::TestWithParam<Conformance> {};

TEST_P(LocalConformance, holds_at_every_size) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    run_local({.ranks = ranks}, GetParam().run);
  }
}

INSTANTIATE_TEST_SUITE_P(Group, LocalConformance, testing::ValuesIn(conformances()),
                         [](const auto& law) { return law.param.name; });

/// What run_local ends with: "returned", "refused: ..." or "lost R: ...".
std::string ending(const LocalRun& run, const RankBody& body) {
  try {
    run_local(run, body);
  } catch (const Refusal& refusal) {
    return std::string("refused: ") + refusal.what();
  } catch (const Lost& lost) {
    return "lost " + std::to_string(lost.rank()) + ": " + lost.what();
  }
  return "returned";
}

TEST(Local, ranks_are_all_there_with_their_numbers) {
  std::atomic<int> seen = 0;
  run_local({.ranks = 5}, [&](Group& group) {
    EXPECT_EQ(group.size(), 5);
    EXPECT_EQ(group.name(), "local");
    EXPECT_EQ(group.space().name(), "host");
    seen += 1 << group.rank();
  });
  EXPECT_EQ(seen, 31);
}

TEST(Local, a_refusal_of_all_reaches_the_caller_once) {
  const std::string end = ending({.ranks = 4}, [](Group& group) {
    refuse_together(group, group.rank() == 2 ? Reason("no") : Reason(), "cannot");
  });
  EXPECT_EQ(end, "refused: cannot: no");
}

TEST(Local, a_rank_that_fails_wakes_those_who_wait_and_is_named) {
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<int> woken = 0;
    const std::string end = ending({.ranks = 3}, [&](Group& group) {
      group.least(0);
      if (group.rank() == failing) lose(failing, "a transport is gone");
      try {
        group.least(0);
      } catch (const Lost&) {
        ++woken;
        std::rethrow_exception(std::current_exception());
      }
    });
    EXPECT_EQ(woken, 2) << failing;
    EXPECT_EQ(end.substr(0, 6), "lost " + std::to_string(failing)) << end;
  }
}

TEST(Local, an_exception_of_another_kind_is_told_with_rank_and_text) {
  std::atomic<int> told = 0;
  const std::string end = ending({.ranks = 4}, [&](Group& group) {
    const std::unique_ptr<Group> part = group.split(group.rank() / 2);
    if (group.rank() == 3) std::rethrow_exception(std::make_exception_ptr(std::bad_alloc()));
    try {
      part->least(0);
      group.least(0);
    } catch (const Lost& lost) {
      told += lost.rank() == 3 && lost.what() == std::string("rank 3: std::bad_alloc");
      std::rethrow_exception(std::current_exception());
    }
  });
  EXPECT_EQ(end, "lost 3: rank 3: std::bad_alloc");
  EXPECT_EQ(told, 3);
}

TEST(Local, a_rank_that_leaves_early_is_named_by_those_who_wait) {
  const std::string end = ending({.ranks = 3}, [](Group& group) {
    if (group.rank() == 1) return;
    group.least(0);
  });
  EXPECT_EQ(end, "lost 1: rank 1 left while others wait for it");
}

TEST(Local, a_rank_that_does_not_come_in_time_is_named) {
  std::atomic<bool> over = false;
  const std::string end =
      ending({.ranks = 3, .wait_limit = std::chrono::milliseconds(50)}, [&](Group& group) {
        if (group.rank() == 2) {
          over.wait(false);
          group.least(0);
          return;
        }
        try {
          group.least(0);
        } catch (const Lost&) {
          over = true;
          over.notify_all();
          std::rethrow_exception(std::current_exception());
        }
      });
  EXPECT_EQ(end, "lost 2: rank 2 did not come within 50 ms");
}

TEST(Local, groups_that_refuse_apart_end_as_a_refusal) {
  const std::string end = ending({.ranks = 4}, [](Group& group) {
    const int color = group.rank() / 2;
    const std::unique_ptr<Group> part = group.split(color);
    refuse_together(*part, color == 1 ? Reason("part 1") : Reason(), "cannot");
  });
  EXPECT_EQ(end, "refused: cannot: part 1, and 1 more rank");
}

TEST(Launch, is_told_by_the_launchers_own_variables) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    unsetenv(name);
  }
  EXPECT_FALSE(launch());
  setenv("SLURM_NTASKS", "4", 1);  // a batch script that started no ranks
  EXPECT_FALSE(launch());
  setenv("PMI_SIZE", "3", 1);
  ASSERT_TRUE(launch());
  EXPECT_EQ(launch()->by, "PMI");
  EXPECT_EQ(launch()->ranks, 3);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launch()->by, "Open MPI");
}

}  // namespace
}  // namespace slicecheck::group
