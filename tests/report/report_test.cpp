// A report is compared as a whole text with a committed example, survives a round trip, appears by
// rename, and its verdict follows from its checks.
#include "report/report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace slicecheck::report {
namespace {

Report example() {
  Report made;
  made.command = "reshard";
  made.run_case = {
      {"experts", std::int64_t{6}}, {"engine", std::string("collective")}, {"share_gpu", false}};
  made.checks = {{"shape", 0, 0, Status::passed, 3, 0, "", {}},
                 {"bytes.w13",
                  0,
                  3,
                  Status::failed,
                  1474560,
                  245760,
                  "16.7 % differ",
                  {{"gigabytes_per_second", 1.5}}}};
  Finding finding;
  finding.cause = "gate-up-swapped";
  finding.text = "gate rows lie where up rows are due in expert 4";
  finding.tensors = {"w13"};
  finding.ranks = {0, 2};
  finding.experts = {4};
  finding.layer = 3;
  finding.also_possible = {"unexplained"};
  finding.first = First{0,
                        "w13",
                        4,
                        1,
                        2,
                        327682,
                        "00ff",
                        "ff00",
                        Logical{"w3", 4, 2, 4, std::nullopt},
                        Logical{"w1", 4, 2, 4, 1U},
                        false};
  made.findings = {finding};
  made.probes = {{"random", 0, 0.0029, 0.003, std::nan(""), WorstRoute{1, 2, 4, 0.004},
                  WorstExpert{4, 0.0035, 0.009}}};
  made.ranks = {{0, 0, "host", "", 0, {{"pid_known", true}}}};
  made.run = {{{"slicecheck", std::string("0.1.0")}}, 0.5, {{"reshard", 0.25}}, {}};
  made.verdict = verdict_of(made);
  return made;
}

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Report, is_the_committed_example_to_the_letter) {
  EXPECT_EQ(json(example()), file_text(SLICECHECK_SOURCE_DIR "/tests/report/example.json"));
}

TEST(Report, survives_a_round_trip) {
  const std::string text = json(example());
  const Result<Report> read = parsed(text);
  ASSERT_FALSE(read.reason) << read.reason.text();
  EXPECT_EQ(json(*read), text);
}

TEST(Report, text_that_is_no_report_is_a_reason) {
  EXPECT_TRUE(parsed("").reason);
  EXPECT_TRUE(parsed("{}").reason);
  EXPECT_TRUE(parsed(std::string(100000, '[')).reason);
  std::string text = json(example());
  text.replace(text.find("\"exit_code\": 1"), 14, "\"exit_code\": 0");
  EXPECT_TRUE(parsed(text).reason);
  text = json(example());
  text.replace(text.find("\"failed\""), 8, "\"hopeful\"");
  EXPECT_TRUE(parsed(text).reason);
}

// The example with one value changed, and what the reader says of it.
std::string said(const std::string& value, const std::string& instead) {
  std::string text = json(example());
  const std::size_t at = text.find(value);
  EXPECT_NE(at, std::string::npos) << value;
  if (at == std::string::npos) return {};
  return parsed(text.replace(at, value.size(), instead)).reason.text();
}

TEST(Report, what_is_wrong_is_told_in_one_line_by_its_place) {
  EXPECT_EQ(parsed("\xff\n").reason.text(), "not JSON at byte 1");
  EXPECT_EQ(parsed("{\"a\": 1, \"a\": 2}").reason.text(), "key 'a' stands twice in one object");
  EXPECT_EQ(parsed("{\"schema\": 1}").reason.text(), "schema: is not slicecheck-report/1");
  EXPECT_EQ(said("\"verdict\": \"failed\"", "\"verdict\": \"x\\nslicecheck: passed\""),
            "/verdict: is not what the schema has here");
  EXPECT_EQ(said("\"severity\": \"error\"", "\"severity\": \"dire\""),
            "/findings/0/severity: is not what the schema has here");
  EXPECT_EQ(said("\"compared\": ", "\"compared\": 1.5e300, \"was\": "),
            "/checks/0/compared: is not what the schema has here");
  EXPECT_EQ(said("\"group\": ", "\"group\": 4294967296, \"was\": "),
            "/checks/0/group: is not what the schema has here");
  EXPECT_EQ(said("\"compared\": ", "\"more\": 0, \"compared\": "),
            "/checks/0/more: is not what the schema has here");
  EXPECT_EQ(said("\"compared\": ", "\"compared\": -"),
            "/checks/0/compared: is not what the schema has here");
  EXPECT_EQ(said("\"cause\": \"", "\"cause\": \"A\\n"),
            "/findings/0/cause: is not what the schema has here");
  EXPECT_EQ(said("\"compared\": ", "\"was\": "), "/checks/0: key 'compared' not found");
  EXPECT_NE(said("\"checks\": [", "\"checks\": null, \"was\": [").find("/checks: "),
            std::string::npos);
  EXPECT_NE(said("\"case\": {", "\"case\": \"x\", \"was\": {").find("/case: "), std::string::npos);
  EXPECT_NE(
      said("\"case\": {", "\"case\": {\"\xc3\xa9\\n\": null, ").find("/case/\\xc3\\xa9\\x0a: "),
      std::string::npos);
  EXPECT_EQ(said("\"exit_code\": 1", "\"exit_code\": \"\\n\""),
            "exit_code: is \"\\n\", not that of verdict failed");
}

TEST(Verdict, the_worst_wins_in_the_order_of_the_contract) {
  const Verdict order[] = {Verdict::error,   Verdict::hung,   Verdict::unusable,
                           Verdict::refused, Verdict::failed, Verdict::inconclusive,
                           Verdict::passed,  Verdict::not_run};
  for (std::size_t a = 0; a < std::size(order); ++a) {
    for (std::size_t b = 0; b < std::size(order); ++b) {
      EXPECT_EQ(worst(order[a], order[b]), order[std::min(a, b)]);
    }
  }
}

TEST(Verdict, nothing_checked_is_not_run_and_a_finding_is_a_failure) {
  Report report;
  EXPECT_EQ(verdict_of(report), Verdict::not_run);
  report.checks = {{"bytes.w13", 0, 0, Status::not_run, 0, 0, "", {}}};
  EXPECT_EQ(verdict_of(report), Verdict::not_run);
  report.checks.push_back({"bytes.w2", 0, 0, Status::passed, 1, 0, "", {}});
  EXPECT_EQ(verdict_of(report), Verdict::passed);
  report.checks.push_back({"control.w2_sf", 0, 0, Status::failed, 1, 0, "", {}});
  EXPECT_EQ(verdict_of(report), Verdict::inconclusive);
  report.findings.resize(1);
  EXPECT_EQ(verdict_of(report), Verdict::failed);
}

TEST(Verdict, is_never_better_than_what_was_found) {
  Report report = example();
  report.verdict = Verdict::failed;
  EXPECT_FALSE(contradictory(report));
  report.verdict = Verdict::hung;
  EXPECT_FALSE(contradictory(report));
  report.verdict = Verdict::passed;
  EXPECT_EQ(contradictory(report).text(),
            "verdict: is passed, but the checks and findings say failed");
  report.findings.clear();
  report.checks = {{"control.exact.w2_sf", 0, 0, Status::failed, 1, 1, "", {}}};
  EXPECT_TRUE(contradictory(report));
  report.checks = {{"bytes.w13", 0, 0, Status::skipped, 0, 0, "", {}}};
  EXPECT_TRUE(contradictory(report));
  report.checks.clear();
  EXPECT_TRUE(contradictory(report));
  report.verdict = Verdict::not_run;
  EXPECT_FALSE(contradictory(report));
  report.checks = {{"bytes.w13", 0, 0, Status::passed, 1, 0, "", {}}};
  EXPECT_TRUE(contradictory(report));
}

TEST(Report, goes_into_a_pipe_that_is_read_and_waits_for_no_other) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("slicecheck-report-pipe-" + std::to_string(::getpid()));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(write(example(), path));
  // Larger than what a pipe holds: it is written as it is read.
  Report large = example();
  large.checks.resize(2000, large.checks.front());
  std::string got;
  const int end = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(end, 0);
  EXPECT_FALSE(unwritable(path));
  std::thread reader([&] {
    std::array<char, 4096> some;
    while (!got.ends_with("\n}\n")) {
      struct ::pollfd waiting {
        end, POLLIN, 0
      };
      ::poll(&waiting, 1, 10000);
      const ssize_t count = ::read(end, some.data(), some.size());
      if (count > 0) got.append(some.data(), static_cast<std::size_t>(count));
      if (count == 0) break;
    }
  });
  EXPECT_FALSE(write(large, path));
  reader.join();
  ::close(end);
  std::filesystem::remove(path);
  EXPECT_EQ(got, json(large));
}

TEST(Report, appears_whole_or_not_at_all) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("slicecheck-report-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "report.json";
  EXPECT_FALSE(write(example(), path));
  EXPECT_EQ(file_text(path), json(example()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_TRUE(write(example(), folder));
  EXPECT_TRUE(write(example(), folder / "absent" / "report.json"));
  EXPECT_TRUE(unwritable(folder / "absent" / "report.json"));
  EXPECT_TRUE(unwritable(folder));
  EXPECT_FALSE(unwritable(path));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(Report, is_written_in_place_to_what_is_no_regular_file) {
  EXPECT_FALSE(write(example(), "/dev/null"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(write(example(), "/dev/full"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  EXPECT_TRUE(unwritable(""));
}

TEST(Table, ends_with_the_verdict) {
  const std::string text = table(example());
  EXPECT_TRUE(text.ends_with("\nverdict: failed\n")) << text;
  EXPECT_NE(text.find("due there: w3 of expert 4, row 2, column 4"), std::string::npos) << text;
}

TEST(Table, shows_on_one_line_what_a_report_holds) {
  Report report = example();
  report.command = "reshard\x1b]0;";
  report.findings[0].cause = "a\nverdict: passed";
  report.findings[0].tensors = {"w2\r"};
  const std::string text = table(report);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos) << text;
  EXPECT_NE(text.find("reshard\\x1b]0;"), std::string::npos) << text;
  EXPECT_NE(text.find("a\\x0averdict: passed"), std::string::npos) << text;
}

}  // namespace
}  // namespace slicecheck::report
