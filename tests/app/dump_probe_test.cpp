// The probe of a dump against the seed's own values, from files as an engine in any language writes
// them; and what is refused with its file and field.
#include "app/dump_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "checkpoint/dump.h"
#include "checkpoint/safetensors.h"
#include "tests/reshard/probe_inputs.h"

namespace slicecheck::app {
namespace {

namespace fs = std::filesystem;
using reshard::golden_probes;
using reshard::golden_ranks;
using reshard::GoldenProbe;
using reshard::ProbeRows;

struct Member {
  std::string name;
  Tensor tensor;
};

Tensor indices(const std::vector<std::int32_t>& values, const Extents& extents) {
  Tensor made = host_tensor(Dtype::i32, extents);
  std::memcpy(made.data.get(), values.data(), 4 * values.size());
  return made;
}

// A dump with probe files alone, in a folder of its own.
class DumpProbes : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) /
        (std::string("probe-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file_of(int rank) const {
    return (folder_ / ("probe.rank" + std::to_string(rank) + ".safetensors")).string();
  }

  void write(int rank, const std::vector<Member>& members) const {
    fs::remove(file_of(rank));
    std::vector<checkpoint::TensorEntry> entries;
    for (const Member& each : members) {
      entries.push_back(
          {each.name, checkpoint::element_of(each.tensor.dtype), each.tensor.extents, 0, 0});
    }
    auto writer = checkpoint::SafetensorsWriter::create(file_of(rank), {}, entries);
    ASSERT_FALSE(writer.reason);
    for (const Member& each : members) ASSERT_FALSE(writer->add(host_bytes(each.tensor)));
    ASSERT_FALSE(writer->finish());
  }

  static std::vector<Member> members_of(const ProbeRows& rows, const GoldenProbe& probe) {
    const Extents flat{probe.tokens * probe.top_k};
    return {{"ep_rows", rows.ep.rows},
            {"ep_permuted_idx", indices(rows.ep.map, {probe.tokens, probe.top_k})},
            {"tp_rows", rows.tp.rows},
            {"tp_permuted_idx", indices(rows.tp.map, flat)}};
  }

  static checkpoint::Manifest manifest_of(const GoldenProbe& probe, int ranks) {
    checkpoint::Manifest made;
    made.world = ranks;
    made.shape = {16 * ranks, probe.hidden, 64 * ranks, ranks};
    made.engine = "a kernel";
    made.tokens = probe.tokens;
    made.top_k = probe.top_k;
    made.ranks = checkpoint::consecutive_groups(ranks, ranks);
    return made;
  }

  Result<report::Report> judge(const checkpoint::Manifest& manifest) const {
    return dump_probe_report({folder_.string(), manifest, 0, 0}, {});
  }

  // The EP row of every route on the rank that holds its expert, of 16 experts a rank.
  static std::vector<ProbeRows> rows_of_holders(const GoldenProbe& probe,
                                                const moe::Routing& routing, int ranks) {
    const std::int64_t routes = routing.routes();
    std::vector<ProbeRows> golden;
    std::vector<ProbeRows> made;
    for (int r = 0; r < ranks; ++r) {
      golden.push_back(reshard::golden_rows(probe, r, ranks));
      made.push_back(golden.back());
      made[r].ep.rows = host_tensor(Dtype::bf16, {routes, probe.hidden});
      made[r].ep.map.assign(routes, -1);
    }
    for (std::int64_t route = 0; route < routes; ++route) {
      ProbeRows& to = made[routing.experts[route] / 16];
      to.ep.map[route] = static_cast<std::int32_t>(route);
      for (ProbeRows& from : golden) {
        if (from.ep.map[route] < 0) continue;
        std::copy_n(moe::row_of(from.ep, from.ep.map[route]), probe.hidden,
                    moe::row_of(to.ep, route));
      }
    }
    return made;
  }

  // A dump of 2 ranks; topk_ids in the second one's file.
  void write_all(const std::vector<ProbeRows>& rows, const GoldenProbe& probe,
                 const std::vector<std::int32_t>& experts) const {
    for (int r = 0; r < 2; ++r) {
      std::vector<Member> members = members_of(rows[r], probe);
      if (r == 1) members.push_back({"topk_ids", indices(experts, {probe.tokens, probe.top_k})});
      write(r, members);
    }
  }

  // The reason after one file of a sound dump of 2 ranks is written anew.
  std::string reason_after(int rank, const std::function<void(std::vector<Member>&)>& change) {
    const GoldenProbe& probe = golden_probes[0];
    for (int r = 0; r < 2; ++r) {
      std::vector<Member> members = members_of(reshard::golden_rows(probe, r, 2), probe);
      if (r == rank) change(members);
      write(r, members);
    }
    const Result<report::Report> made = judge(manifest_of(probe, 2));
    if (!made.reason) return "";
    const std::string text = made.reason.text();
    return text.substr(text.find('/') + 1);  // behind the folder
  }

  fs::path folder_;
};

TEST_F(DumpProbes, give_the_seeds_values_at_every_recorded_number_of_ranks) {
  for (int n = 0; n < 5; ++n) {
    for (const GoldenProbe& probe : golden_probes) {
      const int ranks = golden_ranks[n];
      for (int r = 0; r < ranks; ++r) {
        write(r, members_of(reshard::golden_rows(probe, r, ranks), probe));
      }
      const Result<report::Report> made = judge(manifest_of(probe, ranks));
      ASSERT_FALSE(made.reason) << made.reason.text();
      ASSERT_EQ(made->probes.size(), 1U);
      const double due = probe.values[n];
      EXPECT_NEAR(made->probes[0].rel_l2, due, due * reshard::golden_precision);
      EXPECT_EQ(made->checks[0].id, "probe.routes");
      EXPECT_EQ(made->checks[0].status, report::Status::passed);
      EXPECT_EQ(made->checks[1].id, "probe.random");
      const bool noisy = probe.noise > 1e-3;
      EXPECT_EQ(made->checks[1].status, noisy ? report::Status::failed : report::Status::passed);
      EXPECT_EQ(made->findings.size(), noisy ? 1U : 0U);
    }
  }
}

TEST_F(DumpProbes, judge_each_expert_where_topk_ids_say_them) {
  const GoldenProbe& probe = golden_probes[2];
  const moe::Routing routing = moe::covering({32, probe.tokens, probe.top_k, 1});
  const std::int64_t wrong = routing.experts[9];
  std::vector<ProbeRows> all = rows_of_holders(probe, routing, 2);
  for (ProbeRows& rows : all) {
    for (const std::int64_t route : moe::routes_of(routing, wrong)) {
      for (std::int64_t h = 0; h < probe.hidden; ++h) {
        moe::row_of(rows.tp, rows.tp.map[route])[h] ^= 0x0010;
      }
    }
  }
  write_all(all, probe, routing.experts);
  checkpoint::Manifest manifest = manifest_of(probe, 2);
  const Result<report::Report> made = judge(manifest);
  ASSERT_FALSE(made.reason) << made.reason.text();
  ASSERT_EQ(made->findings.size(), 1U);
  EXPECT_EQ(made->findings[0].cause, "rel-l2-above-bound");
  EXPECT_EQ(made->findings[0].experts, std::vector<std::int64_t>{wrong});
  EXPECT_EQ(made->findings[0].side, report::Side::probe);
  ASSERT_TRUE(made->probes[0].worst_expert);
  EXPECT_EQ(made->probes[0].worst_expert->expert, wrong);
  // K stands in the extents where the manifest does not say it.
  manifest.tokens.reset();
  manifest.top_k.reset();
  EXPECT_EQ(judge(manifest)->probes[0].worst_route->expert, wrong);
}

TEST_F(DumpProbes, fail_where_another_rank_than_the_experts_serves_a_route) {
  const GoldenProbe& probe = golden_probes[2];
  const moe::Routing routing = moe::covering({32, probe.tokens, probe.top_k, 1});
  std::vector<ProbeRows> all = rows_of_holders(probe, routing, 2);
  write_all(all, probe, routing.experts);
  EXPECT_TRUE(judge(manifest_of(probe, 2))->findings.empty());

  const std::vector<std::int32_t>& experts = routing.experts;
  const auto moved = std::find_if(experts.begin(), experts.end(), [](auto e) { return e >= 16; });
  const auto route = moved - experts.begin();
  std::swap(all[0].ep.map[route], all[1].ep.map[route]);
  std::copy_n(moe::row_of(all[1].ep, route), probe.hidden, moe::row_of(all[0].ep, route));
  write_all(all, probe, experts);
  const Result<report::Report> one = judge(manifest_of(probe, 2));
  ASSERT_EQ(one->findings.size(), 1U);
  EXPECT_EQ(one->findings[0].cause, "route-unserved");
  EXPECT_EQ(one->findings[0].ranks, std::vector<int>{1});
  EXPECT_EQ(one->findings[0].experts, std::vector<std::int64_t>{*moved});
  EXPECT_EQ(one->checks[0].status, report::Status::failed);
  EXPECT_EQ(one->checks[0].differing, 1);
  EXPECT_EQ(one->checks[1].status, report::Status::passed);

  // The two ranks' files exchanged: no route lies where its expert does.
  all = rows_of_holders(probe, routing, 2);
  std::swap(all[0], all[1]);
  write_all(all, probe, experts);
  const Result<report::Report> swapped = judge(manifest_of(probe, 2));
  ASSERT_EQ(swapped->findings.size(), 1U);
  EXPECT_EQ(swapped->checks[0].differing, routing.routes());
}

TEST_F(DumpProbes, of_rows_that_are_zero_are_one_finding) {
  const GoldenProbe& probe = golden_probes[2];
  const moe::Routing routing = moe::covering({32, probe.tokens, probe.top_k, 1});
  std::vector<ProbeRows> all = rows_of_holders(probe, routing, 2);
  const std::int64_t expert = routing.experts[9];
  const auto clear = [&](std::int64_t route) {
    std::fill_n(moe::row_of(all[routing.experts[route] / 16].ep, route), probe.hidden, 0);
  };
  for (const std::int64_t route : moe::routes_of(routing, expert)) clear(route);
  write_all(all, probe, routing.experts);
  const Result<report::Report> one = judge(manifest_of(probe, 2));
  ASSERT_EQ(one->findings.size(), 1U);
  EXPECT_EQ(one->findings[0].cause, "reference-zero");
  EXPECT_EQ(one->findings[0].experts, std::vector<std::int64_t>{expert});

  for (std::int64_t route = 0; route < routing.routes(); ++route) clear(route);
  write_all(all, probe, routing.experts);
  const Result<report::Report> none = judge(manifest_of(probe, 2));
  ASSERT_EQ(none->findings.size(), 1U);
  EXPECT_EQ(none->findings[0].cause, "reference-zero");
  EXPECT_EQ(none->checks[1].status, report::Status::failed);
  EXPECT_EQ(none->checks[1].differing, routing.routes());
}

TEST_F(DumpProbes, say_that_they_have_no_control) {
  const GoldenProbe& probe = golden_probes[0];
  for (int r = 0; r < 2; ++r) write(r, members_of(reshard::golden_rows(probe, r, 2), probe));
  const Result<report::Report> made = judge(manifest_of(probe, 2));
  ASSERT_EQ(made->checks.size(), 3U);
  EXPECT_EQ(made->checks[2].id, "control.random");
  EXPECT_EQ(made->checks[2].status, report::Status::skipped);
  EXPECT_FALSE(made->checks[2].text.empty());
  EXPECT_EQ(report::verdict_of(*made), report::Verdict::passed);
}

TEST_F(DumpProbes, name_ranks_by_the_launch) {
  const GoldenProbe& probe = golden_probes[0];
  for (int r = 0; r < 2; ++r) {
    ProbeRows rows = reshard::golden_rows(probe, r, 2);
    if (r == 1) rows.tp.map[3] = -1;
    write(2 + r, members_of(rows, probe));
  }
  checkpoint::Manifest manifest = manifest_of(probe, 2);
  manifest.world = 4;
  manifest.ranks = checkpoint::consecutive_groups(4, 2);
  const Result<report::Report> made = dump_probe_report({folder_.string(), manifest, 1, 7}, {});
  ASSERT_FALSE(made.reason) << made.reason.text();
  ASSERT_EQ(made->findings.size(), 1U);
  EXPECT_EQ(made->findings[0].cause, "route-unserved");
  EXPECT_EQ(made->findings[0].ranks, std::vector<int>{3});
  EXPECT_EQ(made->findings[0].group, 1);
  EXPECT_EQ(made->findings[0].layer, 7);
  EXPECT_EQ(made->checks[0].status, report::Status::failed);
  EXPECT_EQ(made->checks[0].differing, 1);
}

TEST_F(DumpProbes, that_cannot_be_read_are_refused_with_file_and_field) {
  EXPECT_EQ(reason_after(1, [](auto& members) { members.pop_back(); }),
            "probe.rank1.safetensors: tp_permuted_idx: is missing");
  EXPECT_EQ(reason_after(0,
                         [](auto& m) {
                           m[0].tensor = host_tensor(Dtype::bf16, {4, 64});
                         }),
            "probe.rank0.safetensors: ep_rows: is BF16 [4, 64], expected BF16 [P, 128]");
  EXPECT_EQ(reason_after(0,
                         [](auto& m) {
                           m[2].tensor = host_tensor(Dtype::f32, {4, 128});
                         }),
            "probe.rank0.safetensors: tp_rows: is F32 [4, 128], expected BF16 [P, 128]");
  EXPECT_EQ(reason_after(1,
                         [](auto& m) {
                           m[1].tensor = indices({1, 2, 3}, {3});
                         }),
            "probe.rank1.safetensors: ep_permuted_idx: is I32 [3], the manifest says 4 tokens and "
            "top_k 2");
  EXPECT_EQ(reason_after(1,
                         [](auto& m) {
                           m[3].tensor = indices({1, 2, 3, 4, 5, 6, 7, 99}, {8});
                         }),
            "probe.rank1.safetensors: tp_permuted_idx: route 7 lies in row 99 of 10");
  EXPECT_EQ(reason_after(1,
                         [](auto& m) {
                           m.push_back({"topk_ids", indices({1, 2, 3, 3, 5, 6, 7, 8}, {4, 2})});
                         }),
            "probe.rank1.safetensors: topk_ids: token 1 goes to expert 3 twice, by routes 0 and 1");
}

}  // namespace
}  // namespace slicecheck::app
