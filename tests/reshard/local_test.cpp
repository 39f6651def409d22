// The reshard over threads of one process.
#include <gtest/gtest.h>

#include "experts/payload.h"
#include "group/agree.h"
#include "group/local/local_group.h"
#include "reshard/reshard.h"
#include "tests/reshard/reshard_laws.h"

namespace slicecheck::reshard {
namespace {

class LocalReshard : public testing::TestWithParam<Law> {};

TEST_P(LocalReshard, holds_at_every_size) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    group::run_local({.ranks = ranks}, GetParam().run);
  }
}

INSTANTIATE_TEST_SUITE_P(Reshard, LocalReshard, testing::ValuesIn(laws()),
                         [](const auto& law) { return law.param.name; });

TEST(Reshard, one_rank_is_refused_in_the_seeds_words) {
  const layout::Shape shape{2, 128, 64, 1};
  const layout::Payload payload{layout::PayloadKind::bytes, 1, 0};
  std::string caught;
  try {
    group::run_local({.ranks = 1}, [&](group::Group& group) {
      reshard_nvfp4(experts::payload_stock(payload, shape, 0), group, 2);
    });
  } catch (const group::Refusal& refused) {
    caught = refused.what();
  }
  EXPECT_EQ(caught,
            "Expert TP cannot reshard the stock experts: intermediate 64 does not split 1 ways");
}

}  // namespace
}  // namespace slicecheck::reshard
