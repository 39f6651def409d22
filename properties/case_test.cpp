// Cases: what is drawn, what they shrink to, how they are saved; and the watch over them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "group/local/local_group.h"
#include "properties/corpus.h"
#include "properties/report/schema.h"
#include "properties/run/run.h"
#include "properties/run/watch.h"

namespace slicecheck::properties {
namespace {

constexpr std::int64_t drawn_cases = 300;
constexpr Draw draws[] = {Draw::valid,      Draw::cut_again, Draw::routed,    Draw::scaled,
                          Draw::checkpoint, Draw::invalid,   Draw::misplaced, Draw::planted};

TEST(Drawn, are_cases_that_cut_and_within_the_limits) {
  const Limits limits;
  for (const Draw draw : draws) {
    for (std::int64_t i = 0; i < drawn_cases; ++i) {
      const Case given = drawn(draw, limits, 1, i).value;
      EXPECT_FALSE(layout::unsupported(given.shape)) << text(given);
      EXPECT_LE(given.shape.tp, limits.tp);
      EXPECT_LE(given.shape.experts_per_rank(), limits.experts_per_rank);
      EXPECT_EQ(given.shape.slice() % (64 * given.again), 0) << text(given);
      EXPECT_EQ(given.again > 1, draw == Draw::cut_again);
      EXPECT_EQ(given.fault != Fault::none, draw == Draw::invalid) << text(given);
      EXPECT_EQ(given.placement != Placement::linear, draw == Draw::misplaced) << text(given);
      EXPECT_EQ(given.plant != 0, draw == Draw::planted) << text(given);
      EXPECT_TRUE(given.format == Format::modelopt || draw == Draw::checkpoint) << text(given);
      EXPECT_TRUE(given.scales == Scales::per_expert || draw == Draw::scaled) << text(given);
      EXPECT_TRUE(given.routes == Routes::covering || draw == Draw::routed) << text(given);
      if (given.placement == Placement::round_robin) {
        EXPECT_GE(given.shape.experts_per_rank(), 2);
      }
      EXPECT_LT(given.fault_rank, given.shape.tp);
    }
  }
}

TEST(Drawn, depend_on_seed_and_number_alone) {
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < drawn_cases; ++i) {
    const std::string first = json({"", drawn(Draw::valid, Limits(), 3, i).value});
    EXPECT_EQ(first, json({"", drawn(Draw::valid, Limits(), 3, i).value}));
    EXPECT_NE(first, json({"", drawn(Draw::valid, Limits(), 4, i).value}));
    seen.insert(first);
  }
  EXPECT_EQ(std::ssize(seen), drawn_cases);
}

// Follows the first candidate down: the end is the smallest case.
TEST(Drawn, shrink_to_one_tile_one_expert_a_rank_and_two_ranks) {
  for (const Draw draw : draws) {
    Drawn at = drawn(draw, Limits(), 5, 11);
    int steps = 0;
    while (const std::shared_ptr<Drawn> smaller = at.next_smaller()) {
      at = *smaller;
      ASSERT_LT(++steps, 1000);
    }
    const layout::Shape& shape = at.value.shape;
    EXPECT_EQ(shape, (layout::Shape{2, 128, 128 * at.value.again, 2})) << text(at.value);
    EXPECT_EQ(at.value.payload.seed, 1U);
  }
}

// A case from elsewhere shrinks as far as one that was drawn.
TEST(Saved, cases_shrink_to_the_same_smallest_case) {
  for (const Draw draw : draws) {
    Drawn at = undrawn(drawn(draw, Limits(), 5, 11).value);
    int steps = 0;
    while (const std::shared_ptr<Drawn> smaller = at.next_smaller()) {
      at = *smaller;
      ASSERT_LT(++steps, 1000);
    }
    EXPECT_EQ(at.value.shape, (layout::Shape{2, 128, 128 * at.value.again, 2}));
    EXPECT_EQ(at.value.payload.seed, 1U);
    EXPECT_EQ(at.value.fault != Fault::none, draw == Draw::invalid);
    EXPECT_EQ(at.value.placement != Placement::linear, draw == Draw::misplaced);
    EXPECT_EQ(at.value.plant != 0, draw == Draw::planted);
  }
}

TEST(Saved, cases_come_back_as_they_were) {
  for (const Draw draw : draws) {
    for (std::int64_t i = 0; i < drawn_cases; ++i) {
      const SavedCase saved{"Suite.law", drawn(draw, Limits(), 2, i).value};
      const Result<SavedCase> back = parsed(json(saved));
      ASSERT_FALSE(back.reason) << back.reason.text();
      EXPECT_EQ(back->law, saved.law);
      EXPECT_EQ(back->given, saved.given) << json(saved);
    }
  }
}

std::string refusal(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  const Result<SavedCase> back = parsed(text.replace(at, what.size(), by));
  return back.reason ? back.reason.text() : "read";
}

TEST(Saved, what_no_case_can_be_is_refused) {
  const std::string sound = json({"Suite.law", Case()});
  EXPECT_FALSE(parsed(sound).reason);
  EXPECT_EQ(refusal(sound, "case/1", "case/2"), "the format is not slicecheck-case/1");
  EXPECT_EQ(refusal(sound, "\"bytes\"", "\"bits\""),
            "payload.kind: \"bits\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"none\"", "\"all\""),
            "fault.what: \"all\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"tp\":2", "\"tp\":0"), "0 is not in [1, 65536]");
  EXPECT_EQ(refusal(sound, "\"tp\":2", "\"tp\":128"), "2 experts over 128 ranks cannot be run");
  EXPECT_EQ(refusal(sound, "\"hidden\":128", "\"hidden\":-128"),
            "shape.hidden: is no whole number from 0 on");
  EXPECT_EQ(refusal(sound, "\"experts\":2", "\"experts\":3"),
            "3 experts over 2 ranks cannot be run");
  EXPECT_EQ(refusal(sound, "\"rank\":0", "\"rank\":2"),
            "fault_rank or fault_tensor is out of range");
  EXPECT_EQ(refusal(sound, "\"again\"", "\"placement\":\"other\",\"again\""),
            "placement: \"other\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"again\"", "\"checkpoint\":\"other\",\"again\""),
            "checkpoint: \"other\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"again\"", "\"routes\":\"other\",\"again\""),
            "routes: \"other\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"again\"", "\"scales\":\"other\",\"again\""),
            "scales: \"other\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"again\"", "\"plant\":\"other\",\"again\""),
            "plant: \"other\" is no name that a case may hold");
  EXPECT_EQ(refusal(sound, "\"tensor\":0", "\"tensor\":0,\"expert\":2"),
            "fault_expert is out of range");
  EXPECT_EQ(refusal(sound, "\"seed\":1", "\"seed\":\"x\""),
            "payload.seed: is no whole number from 0 on");
  EXPECT_EQ(refusal(sound, "\"hidden\":128", "\"hidden\":100").find("shape: "), 0U);
  EXPECT_EQ(refusal(sound, "\"intermediate\":128", "\"intermediate\":192").find("shape: "), 0U);
  EXPECT_EQ(refusal(sound, "\"again\":1", "\"again\":2").find("shape: "), 0U);
  EXPECT_EQ(refusal(sound, "\"hidden\":128", "\"hidden\":18446744073709551615"),
            "shape.hidden: is no number that a case may hold");
  EXPECT_NE(refusal(sound, "\"again\":1", "\"again\":1,\"again\":1"), "read");
  EXPECT_NE(refusal(sound, "{", "["), "read");
}

TEST(Corpus, is_the_folder_and_every_case_has_its_law) {
  std::set<std::string> files;
  for (const auto& each :
       std::filesystem::directory_iterator(SLICECHECK_SOURCE_DIR "/golden/corpus")) {
    files.insert(each.path().filename());
  }
  for (const CorpusFile& file : corpus_files()) {
    EXPECT_EQ(files.erase(std::string(file.name)), 1U) << file.name;
    std::ifstream in(SLICECHECK_SOURCE_DIR "/golden/corpus/" + std::string(file.name));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), file.text);
  }
  EXPECT_TRUE(files.empty()) << *files.begin() << " is not built into the program";
  for (const SavedCase& saved : corpus()) EXPECT_TRUE(law_named(saved.law)) << saved.law;
}

TEST(Run, ranks_that_drew_different_cases_run_none_and_say_who) {
  const Law law = *law_named("Agree.all_refuse_with_the_lowest_rank_s_sentence");
  std::array<Outcome, 3> all;
  group::run_local({3, std::chrono::seconds(60)}, [&](group::Group& world) {
    Plan plan;
    plan.seed = world.rank() == 1 ? 2 : 1;
    all[world.rank()] = run(world, law, plan, Subject());
  });
  for (const Outcome& each : all) {
    ASSERT_TRUE(each.broken);
    EXPECT_EQ(each.broken->text, "rank 1 drew another case than rank 0");
    EXPECT_EQ(each.cases, 0);
    EXPECT_FALSE(each.passed());
  }
}

TEST(Run, draws_go_on_for_the_classes_that_no_case_had_and_for_no_others) {
  const Law law = *law_named("Payload.byte_of_a_place_is_the_experts_byte");
  Plan plan;
  plan.cases = 3;
  Outcome few;
  std::array<Outcome, 3> all;
  const auto tried = [&](Outcome& made) {
    return [&](group::Group& world) { made = run(world, law, plan, Subject()); };
  };
  group::run_local({1, std::chrono::seconds(60)}, tried(few));
  EXPECT_EQ(few.cases, 3);
  EXPECT_FALSE(few.missed.empty());
  EXPECT_FALSE(few.passed());
  plan.draws = 1000;
  for (int ranks = 1; ranks <= 3; ++ranks) {
    group::run_local({ranks, std::chrono::seconds(60)}, [&](group::Group& world) {
      Outcome made = run(world, law, plan, Subject());
      if (world.rank() == 0) all[ranks - 1] = made;
    });
  }
  for (const Outcome& each : all) {
    EXPECT_TRUE(each.passed()) << text(each);
    EXPECT_LE(each.cases, 3 + std::ssize(few.missed));
    EXPECT_EQ(text(each), text(all[0]));
  }
}

// Each keyword of the schema refuses something: a law that holds reports against it sees as much.
TEST(Schema, what_does_not_fit_is_refused) {
  report::Report made;
  made.command = "reshard";
  made.checks.resize(1);
  made.checks[0].id = "shape";
  made.findings.resize(1);
  made.findings[0].cause = "unexplained";
  made.findings[0].text = "one sentence";
  made.findings[0].first = report::First{0, "w13", 0, 0, 0, 0, "00ff", "ff00", {}, {}, true};
  made.ranks.resize(1);
  const std::string text = report::json(made);
  EXPECT_FALSE(unfit(text)) << unfit(text).text();
  const std::array<std::array<std::string, 3>, 12> changes{{
      {"slicecheck-report/1", "slicecheck-report/2", "const"},
      {"\"reshard\"", "\"resharded\"", "enum"},
      {"\"exit_code\": 77", "\"exit_code\": 0", "const"},
      {"\"id\": \"shape\"", "\"id\": \"Shape\"", "pattern"},
      {"\"compared\": 0", "\"compared\": -1", "minimum"},
      {"\"compared\": 0", "\"compared\": 0.5", "type"},
      {"\"explained\": 1.0", "\"explained\": 1.5", "maximum"},
      {"\"text\": \"one sentence\"", "\"text\": \"\"", "minLength"},
      {"\"want\": \"00ff\"", "\"want\": \"00f\"", "pattern"},
      {"\"origin\": \"ambiguous\"", "\"origin\": \"unknown\"", "oneOf"},
      {"\"cause\": \"unexplained\",", "", "required"},
      {"\"probes\": []", "\"probes\": [], \"extra\": 1", "additionalProperties"},
  }};
  for (const auto& [what, by, keyword] : changes) {
    std::string other = text;
    ASSERT_NE(other.find(what), std::string::npos) << what;
    const Reason reason = unfit(other.replace(other.find(what), what.size(), by));
    ASSERT_TRUE(reason) << by;
    EXPECT_NE(reason.text().find("\"" + keyword + "\""), std::string::npos) << reason.text();
  }
  made.verdict = report::Verdict::passed;
  made.checks.clear();
  EXPECT_TRUE(unfit(report::json(made)));
}

TEST(Watch, calls_once_when_something_does_not_end) {
  std::atomic<int> calls = 0;
  Watch watch(std::chrono::milliseconds(20), [&] {
    ++calls;
    calls.notify_all();
  });
  watch.begin();
  calls.wait(0);
  EXPECT_EQ(calls, 1);
}

TEST(Watch, does_not_call_for_what_has_ended) {
  std::atomic<int> calls = 0;
  {
    Watch watch(std::chrono::seconds(30), [&] { ++calls; });
    for (int i = 0; i < 100; ++i) watch.begin();
    watch.end();
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace slicecheck::properties
