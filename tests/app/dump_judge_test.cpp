// Evidence of bytes that differ never ends green, whatever is said of it.
#include "app/dump_judge.h"

#include <gtest/gtest.h>

namespace slicecheck::app {
namespace {

DumpCase case_of_two_ranks() {
  DumpCase made;
  made.manifest.world = 2;
  made.manifest.shape = {4, 128, 256, 2};
  made.manifest.plain = layout::stock_widths(made.manifest.shape);
  made.manifest.ranks = checkpoint::consecutive_groups(2, 2);
  made.parts.tp = true;
  return made;
}

TEST(DumpJudge, bytes_that_differ_and_have_no_name_fail) {
  verify::WrongTensor wrong;
  wrong.target = {verify::Side::tp, layout::Kind::w2, 1, 3};
  wrong.differing = 5;
  const report::Report judged = judged_group(case_of_two_ranks(), 0, {{wrong}, {}, {}}, {});
  EXPECT_TRUE(judged.findings.empty());
  EXPECT_EQ(report::verdict_of(judged), report::Verdict::failed);
}

TEST(DumpJudge, no_evidence_passes) {
  const report::Report judged = judged_group(case_of_two_ranks(), 0, {}, {});
  EXPECT_EQ(report::verdict_of(judged), report::Verdict::passed);
}

}  // namespace
}  // namespace slicecheck::app
