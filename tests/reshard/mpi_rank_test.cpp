// The reshard over the ranks of a launch.
#include <gtest/gtest.h>

#include "experts/payload.h"
#include "group/agree.h"
#include "reshard/reshard.h"
#include "tests/rank_main.h"
#include "tests/reshard/reshard_laws.h"

namespace slicecheck::reshard {
namespace {

class MpiReshard : public testing::TestWithParam<Law> {};

TEST_P(MpiReshard, holds) {
  if (rank_group().size() > 1) GetParam().run(rank_group());
}

INSTANTIATE_TEST_SUITE_P(Reshard, MpiReshard, testing::ValuesIn(laws()),
                         [](const auto& law) { return law.param.name; });

// Every size of launch has groups of one.
TEST(MpiReshardAlone, is_refused_in_the_seeds_words) {
  const layout::Shape shape{2, 128, 64, 1};
  const layout::Payload payload{layout::PayloadKind::bytes, 1, 0};
  const std::unique_ptr<group::Group> alone = rank_group().split(rank_group().rank());
  std::string caught;
  try {
    reshard_nvfp4(experts::payload_stock(payload, shape, 0), *alone, 2);
  } catch (const group::Refusal& refused) {
    caught = refused.what();
  }
  EXPECT_EQ(caught,
            "Expert TP cannot reshard the stock experts: intermediate 64 does not split 1 ways");
}

}  // namespace
}  // namespace slicecheck::reshard
