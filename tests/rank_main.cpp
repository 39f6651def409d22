#include "tests/rank_main.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace slicecheck {
namespace {

group::Session* session = nullptr;
group::Group* world = nullptr;

/// What ranks other than 0 print: their failures, with the rank before each.
class RankPrinter final : public testing::EmptyTestEventListener {
 public:
  explicit RankPrinter(int rank) : rank_(rank) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "[rank %d] %s.%s: %s:%d: %s\n", rank_, test ? test->test_suite_name() : "",
                 test ? test->name() : "", result.file_name() ? result.file_name() : "",
                 result.line_number(), result.message());
  }

 private:
  int rank_;
};

int run() {
  group::Session own_session;
  session = &own_session;
  const std::unique_ptr<group::Group> own_world = own_session.world();
  world = own_world.get();
  if (world->rank() != 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankPrinter(world->rank()));
  }
  const bool passed = RUN_ALL_TESTS() == 0;
  // A filter that leaves no test on this rank would pass unseen.
  const bool ran = testing::UnitTest::GetInstance()->test_to_run_count() > 0;
  return world->least(passed && ran ? 1 : 0) == 1 ? 0 : 1;
}

}  // namespace

group::Session& rank_session() { return *session; }
group::Group& rank_group() { return *world; }

}  // namespace slicecheck

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return slicecheck::run();
}
