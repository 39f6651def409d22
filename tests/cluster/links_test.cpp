// Every pair of ranks meets once, what it changes is told with the pair, and a slow link is one
// that is slow alone too.
#include "cluster/links.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <thread>

#include "cluster/rounds.h"
#include "group/forwarding.h"
#include "group/local/local_group.h"

namespace slicecheck::cluster {
namespace {

using group::Group;

TEST(Rounds, bring_every_pair_together_once) {
  for (int ranks = 1; ranks <= 65; ++ranks) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < rounds_of(ranks); ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int other = partner(rank, ranks, round);
        ASSERT_EQ(partner(other, ranks, round), rank) << ranks << " ranks, round " << round;
        EXPECT_TRUE(other <= rank || met.emplace(rank, other).second);
      }
    }
    EXPECT_EQ(std::ssize(met), ranks * (ranks - 1) / 2);
  }
}

LinkOptions options_of(int ranks) {
  LinkOptions made{"host", 5000, 2, 1, {}, false};
  for (int rank = 0; rank < ranks; ++rank) made.hosts.push_back("host" + std::to_string(rank));
  return made;
}

/// What a rank does to what it gets: changes a byte, or takes long.
struct Spoilt {
  int rank = -1;
  std::chrono::milliseconds delay{0};
  bool changes = false;
  int spared = 0;    // exchanges in which it changes nothing
  bool own = false;  // its own block, not another's
};

constexpr double never_slow = 1000;  // seconds: no link is measured again

class SpoiltGroup final : public group::ForwardingGroup {
 public:
  SpoiltGroup(Group& inner, const Spoilt& spoilt, int rank)
      : ForwardingGroup(inner), spoilt_(spoilt), rank_(rank) {}
  SpoiltGroup(std::unique_ptr<Group> part, const SpoiltGroup& whole)
      : ForwardingGroup(*part),
        spoilt_(whole.spoilt_),
        rank_(whole.rank_),
        exchanges_(whole.exchanges_),
        owned_(std::move(part)) {}
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    inner().all_to_all(received, sent, block_bytes);
    spoil(received, block_bytes);
  }
  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    inner().all_to_others(received, sent, block_bytes);
    spoil(received, block_bytes);
  }
  std::unique_ptr<Group> split(int color) override {
    return std::make_unique<SpoiltGroup>(inner().split(color), *this);
  }

 private:
  void spoil(std::uint8_t* received, std::int64_t block_bytes) {
    if (rank_ != spoilt_.rank) return;
    std::this_thread::sleep_for(spoilt_.delay);
    const int from = (inner().rank() == 0) != spoilt_.own ? 1 : 0;
    if (spoilt_.changes && (*exchanges_)++ >= spoilt_.spared)
      received[from * block_bytes + block_bytes / 2] ^= 1;
  }

  Spoilt spoilt_;
  int rank_;
  std::shared_ptr<int> exchanges_ = std::make_shared<int>(0);  // of the whole and its parts
  std::unique_ptr<Group> owned_;
};

/// What rank 0 of `ranks` threads says of the links.
std::vector<Said> tried(const LinkOptions& options, const Spoilt& spoilt = {}) {
  std::vector<Said> made;
  group::run_local({.ranks = static_cast<int>(options.hosts.size())}, [&](Group& world) {
    SpoiltGroup group(world, spoilt, world.rank());
    const std::vector<Link> pairs = exchange(group, options);
    const std::vector<Link> all = links(group, options);
    if (world.rank() != 0) return;
    made = of_links(all, options);
    made.push_back(of_exchange(pairs, options));
  });
  return made;
}

TEST(Links, of_a_sound_group_are_right_at_any_number_of_ranks) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    LinkOptions options = options_of(ranks);
    options.noise_seconds = never_slow;
    const std::vector<Said> said = tried(options);
    ASSERT_EQ(said.size(), 3U);
    const std::int64_t pairs = ranks * (ranks - 1) / 2;
    EXPECT_EQ(said[0].compared, pairs * 2 * 5000 * 2);
    EXPECT_EQ(said[1].compared, pairs > 1 ? pairs : 0);
    EXPECT_EQ(said[1].skipped.empty(), pairs > 1);
    for (const std::size_t of_bytes : {0, 2}) {
      EXPECT_EQ(said[of_bytes].differing, 0);
      EXPECT_TRUE(said[of_bytes].faults.empty());
      EXPECT_EQ(said[of_bytes].skipped.empty(), ranks > 1);
    }
  }
}

TEST(Links, that_change_bytes_are_named_by_the_rank_that_they_share) {
  LinkOptions options = options_of(5);
  options.noise_seconds = never_slow;
  const std::vector<Said> said = tried(options, {2, {}, true});
  ASSERT_EQ(said[0].faults.size(), 1U);
  EXPECT_EQ(said[0].faults[0].cause, "transport-corruption");
  EXPECT_EQ(said[0].faults[0].ranks, std::vector{2});
  EXPECT_EQ(said[0].differing, 4 * 2);  // a byte of each of two blocks from each other rank
  EXPECT_EQ(said[0].faults[0].text,
            "2 of 20000 bytes changed between rank 0 and rank 2, the first at byte 2500, "
            "and 3 more pairs");
  ASSERT_EQ(said[2].faults.size(), 1U);
  EXPECT_EQ(said[2].faults[0].ranks, (std::vector{0, 2}));
  EXPECT_EQ(said[2].differing, 3);
  // On one host all of its ranks have such a link, and it alone has each.
  options.hosts.assign(5, "one");
  EXPECT_EQ(tried(options, {2, {}, true})[0].faults.at(0).ranks, std::vector{2});
}

TEST(Links, that_change_bytes_only_when_they_are_measured_again_are_named_too) {
  // Three exchanges of all, and two with each of three others.
  const Spoilt late{3, std::chrono::milliseconds(50), true, 3 + 2 * 3};
  const Said said = tried(options_of(4), late)[0];
  ASSERT_EQ(said.faults.size(), 1U);
  EXPECT_EQ(said.faults[0].ranks, std::vector{3});
  EXPECT_NE(said.faults[0].text.find("10 of 120000 bytes changed between rank 0 and rank 3"),
            std::string::npos);
}

TEST(Links, of_a_rank_to_itself_are_held_too) {
  LinkOptions options = options_of(2);
  options.noise_seconds = never_slow;
  const Said said = tried(options, {1, {}, true, 0, true})[2];
  EXPECT_EQ(said.differing, 3);
  ASSERT_EQ(said.faults.size(), 1U);
  EXPECT_EQ(said.faults[0].ranks, std::vector{1});
  EXPECT_NE(said.faults[0].text.find("from rank 1 to itself"), std::string::npos);
}

TEST(Links, of_a_rank_that_is_slow_alone_too_are_named_by_it) {
  const std::vector<Said> said = tried(options_of(4), {3, std::chrono::milliseconds(50), false});
  EXPECT_TRUE(said[0].faults.empty());
  ASSERT_EQ(said[1].faults.size(), 1U);
  EXPECT_EQ(said[1].faults[0].cause, "slow-link");
  EXPECT_EQ(said[1].faults[0].ranks, std::vector{3});
  EXPECT_EQ(said[1].differing, 3);
}

TEST(Links, within_a_host_are_held_against_each_other_where_that_is_asked) {
  LinkOptions options = options_of(4);
  options.hosts.assign(4, "one");
  const Spoilt slow{3, std::chrono::milliseconds(50), false};
  EXPECT_TRUE(tried(options, slow)[1].faults.empty());
  options.within_hosts = true;
  const Said said = tried(options, slow)[1];
  ASSERT_EQ(said.faults.size(), 1U);
  EXPECT_TRUE(said.faults[0].warning);
}

TEST(Links, that_were_slow_once_and_not_alone_are_not_named) {
  const LinkOptions options = options_of(3);
  std::vector<Link> links{{0, 1, 0, -1, 0.01, 0.01}, {0, 2, 0, -1, 0.5, 0.02}, {1, 2, 0, -1, 0.01}};
  EXPECT_TRUE(of_links(links, options)[1].faults.empty());
  links[1].alone_seconds = 0.041;
  const Said said = of_links(links, options)[1];
  ASSERT_EQ(said.faults.size(), 1U);
  EXPECT_EQ(said.faults[0].ranks, (std::vector{0, 2}));
}

/// All links of `hosts` hosts of `each` ranks; those that lead to host `slow` take 100 times as
/// long, and one of `measured` of them was tried alone, as all others were.
std::vector<Link> with_slow_host(LinkOptions& options, int hosts, int each, int slow,
                                 std::size_t measured) {
  options.hosts.clear();
  for (int rank = 0; rank < hosts * each; ++rank) {
    options.hosts.push_back("host" + std::to_string(rank / each));
  }
  std::vector<Link> made;
  for (int low = 0; low < hosts * each; ++low) {
    for (int high = low + 1; high < hosts * each; ++high) {
      const bool bad = (low / each == slow) != (high / each == slow);
      const double seconds = bad ? 1 : 0.01;
      made.push_back(
          {low, high, 0, -1, seconds, !bad || made.size() % measured == 0 ? seconds : 0});
    }
  }
  return made;
}

TEST(Links, to_a_slow_host_name_its_ranks_however_few_were_measured_again) {
  LinkOptions options = options_of(1);
  for (const auto& [hosts, each] : {std::pair(3, 2), {4, 16}}) {
    const std::vector<Link> links = with_slow_host(options, hosts, each, hosts - 1, 3);
    const Said said = of_links(links, options)[1];
    ASSERT_EQ(said.faults.size(), 1U);
    std::vector<int> due;
    for (int rank = (hosts - 1) * each; rank < hosts * each; ++rank) due.push_back(rank);
    EXPECT_EQ(said.faults[0].ranks, due);
    EXPECT_EQ(said.differing, (hosts - 1) * each * each);
  }
}

TEST(Links, of_two_hosts_are_no_measure_for_those_within_one) {
  LinkOptions options = options_of(3);
  options.hosts = {"one", "one", "two"};
  options.within_hosts = true;
  const std::vector<Link> links{
      {0, 1, 0, -1, 0.001, 0.001}, {0, 2, 0, -1, 0.1, 0.1}, {1, 2, 0, -1, 0.1, 0.1}};
  EXPECT_TRUE(of_links(links, options)[1].faults.empty());
}

TEST(Links, make_a_row_a_rank) {
  LinkOptions options = options_of(3);
  options.bytes = 1000000000;
  const std::vector<Link> links{{0, 1, 0, -1, 0.5}, {0, 2, 0, -1, 0.25}, {1, 2, 0, -1, 2}};
  EXPECT_EQ(row_of(links, options, 0), "- 2.00 4.00");
  EXPECT_EQ(row_of(links, options, 2), "4.00 0.50 -");
}

}  // namespace
}  // namespace slicecheck::cluster
