// The group of processes: the laws of every group with MPI's own collectives and with pieces, and
// what the session knows of its host.
#include <gtest/gtest.h>

#include "group/agree.h"
#include "group/launch.h"
#include "tests/group/conformance.h"
#include "tests/rank_main.h"

namespace slicecheck::group {
namespace {

class MpiConformance : public testing::TestWithParam<Conformance> {};

TEST_P(MpiConformance, holds) { GetParam().run(rank_group()); }

// Piecing has no other path for sizes beyond what MPI counts: the same code with small pieces.
TEST_P(MpiConformance, holds_in_pieces) {
  for (const std::int64_t piece : {607, 4096}) {
    const std::unique_ptr<Group> group = rank_session().world(piece);
    GetParam().run(*group);
  }
}

INSTANTIATE_TEST_SUITE_P(Group, MpiConformance, testing::ValuesIn(conformances()),
                         [](const auto& law) { return law.param.name; });

TEST(Mpi, session_knows_its_host_and_library) {
  EXPECT_FALSE(rank_session().host().empty());
  EXPECT_NE(rank_session().version().find("MPI"), std::string::npos);
  EXPECT_TRUE(rank_session().many_threads());
  EXPECT_EQ(rank_group().name(), "mpi");
  // The tests run on one host.
  const HostPlace place = rank_session().host_place();
  EXPECT_EQ(place.size, rank_group().size());
  EXPECT_EQ(place.rank, rank_group().rank());
}

TEST(Mpi, launch_is_the_launchers) {
  const std::optional<Launch> told = launch();
  const bool right = told && told->ranks == rank_group().size();
  EXPECT_TRUE(right);
}

// A root that no rank has: MPI says no, and that ends as Lost with the call's name.
TEST(Mpi, a_call_that_fails_is_lost_with_its_name) {
  std::string caught;
  ByteVector bytes(4);
  try {
    rank_group().broadcast(bytes, rank_group().size());
  } catch (const Lost& lost) {
    caught = lost.what();
    EXPECT_EQ(lost.rank(), rank_group().rank());
  }
  EXPECT_EQ(caught.find("MPI_Bcast failed on rank "), 0U) << caught;
}

}  // namespace
}  // namespace slicecheck::group
