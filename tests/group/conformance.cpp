#include "tests/group/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "group/agree.h"

namespace slicecheck::group {
namespace {

// Around the pieces that the tests give an MPI group (607 and 4096 bytes), and beyond.
constexpr std::int64_t sizes[] = {0, 1, 606, 607, 608, 4095, 4096, 4097, 65536};

/// Byte i of what `from` has for `to`.
std::uint8_t due(int from, int to, std::int64_t i) {
  return static_cast<std::uint8_t>(31 * from + 7 * to + 13 * i + i / 251);
}

constexpr std::uint8_t guard = 0xA5;

/// What differs from due() in the block that `from` has for `to`.
std::int64_t differing(Bytes block, int from, int to) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < std::ssize(block); ++i) count += block[i] != due(from, to, i);
  return count;
}

/// What a rank sends to all, and room for what it gets.
struct Sent {
  Sent(const Group& group, std::int64_t bytes)
      : sent(bytes * group.size()), received(bytes * group.size() + 1, guard) {
    for (int to = 0; to < group.size(); ++to) {
      for (std::int64_t i = 0; i < bytes; ++i) sent[to * bytes + i] = due(group.rank(), to, i);
    }
  }
  ByteVector sent;
  ByteVector received;
};

void all_to_all_moves_block_d_to_rank_d(Group& group) {
  for (const std::int64_t bytes : sizes) {
    Sent moved(group, bytes);
    const ByteVector before = moved.sent;
    group.all_to_all(moved.received.data(), moved.sent.data(), bytes);
    for (int from = 0; from < group.size(); ++from) {
      const Bytes block = Bytes(moved.received).subspan(from * bytes, bytes);
      EXPECT_EQ(differing(block, from, group.rank()), 0) << bytes << " bytes from " << from;
    }
    EXPECT_EQ(moved.received.back(), guard) << bytes;
    EXPECT_EQ(moved.sent, before) << bytes;
  }
}

/// Every block is its sender's, and the own one as it was.
void expect_others_blocks(const Group& group, const Sent& moved, std::int64_t bytes) {
  for (int from = 0; from < group.size(); ++from) {
    const Bytes block = Bytes(moved.received).subspan(from * bytes, bytes);
    if (from == group.rank()) {
      EXPECT_EQ(std::count(block.begin(), block.end(), guard), bytes) << bytes;
    } else {
      EXPECT_EQ(differing(block, from, group.rank()), 0) << bytes << " bytes from " << from;
    }
  }
  EXPECT_EQ(moved.received.back(), guard) << bytes;
}

void all_to_others_keeps_the_own_block(Group& group) {
  for (const std::int64_t bytes : sizes) {
    Sent moved(group, bytes);
    group.all_to_others(moved.received.data(), moved.sent.data(), bytes);
    expect_others_blocks(group, moved, bytes);
  }
}

void exchanges_are_each_by_itself(Group& group) {
  std::vector<Sent> all;
  for (const std::int64_t bytes : sizes) all.emplace_back(group, bytes);
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < all.size(); ++i) {
    exchanges.push_back({all[i].received.data(), all[i].sent.data(), sizes[i]});
  }
  group.exchange(exchanges);
  for (std::size_t i = 0; i < all.size(); ++i) expect_others_blocks(group, all[i], sizes[i]);
}

void all_gather_and_share_give_every_rank_in_order(Group& group) {
  for (const std::int64_t bytes : sizes) {
    ByteVector sent(bytes);
    for (std::int64_t i = 0; i < bytes; ++i) sent[i] = due(group.rank(), 0, i);
    ByteVector gathered(bytes * group.size() + 1, guard);
    ByteVector shared(bytes * group.size());
    group.all_gather(gathered.data(), sent.data(), bytes);
    group.share(sent, shared);
    for (int from = 0; from < group.size(); ++from) {
      const Bytes block = Bytes(gathered).subspan(from * bytes, bytes);
      EXPECT_EQ(differing(block, from, 0), 0) << bytes << " bytes from " << from;
    }
    EXPECT_EQ(gathered.back(), guard) << bytes;
    gathered.pop_back();
    EXPECT_EQ(shared, gathered) << bytes;
  }
}

void all_gathers_are_each_by_itself(Group& group) {
  std::vector<ByteVector> sent;
  std::vector<ByteVector> received;
  for (const std::int64_t bytes : sizes) {
    sent.emplace_back(bytes);
    for (std::int64_t i = 0; i < bytes; ++i) sent.back()[i] = due(group.rank(), 2, i);
    received.emplace_back(bytes * group.size() + 1, guard);
  }
  std::vector<Gather> gathers;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    gathers.push_back({received[i].data(), sent[i].data(), std::ssize(sent[i])});
  }
  group.all_gathers(gathers);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    for (int from = 0; from < group.size(); ++from) {
      const Bytes block = Bytes(received[i]).subspan(from * sent[i].size(), sent[i].size());
      EXPECT_EQ(differing(block, from, 2), 0) << sent[i].size() << " bytes from " << from;
    }
    EXPECT_EQ(received[i].back(), guard) << sent[i].size();
  }
}

void broadcast_gives_the_roots_bytes(Group& group) {
  for (int root = 0; root < group.size(); ++root) {
    for (const std::int64_t bytes : sizes) {
      ByteVector mine(bytes, guard);
      if (group.rank() == root) {
        for (std::int64_t i = 0; i < bytes; ++i) mine[i] = due(root, 1, i);
      }
      group.broadcast(mine, root);
      EXPECT_EQ(differing(mine, root, 1), 0) << bytes << " bytes of " << root;
    }
  }
}

void least_is_the_smallest_of_all(Group& group) {
  EXPECT_EQ(group.least(100 - group.rank()), 101 - group.size());
  EXPECT_EQ(group.least(group.rank()), 0);
  const std::int64_t wide = std::int64_t{1} << 40;
  EXPECT_EQ(group.least(-wide - group.rank()), -wide - group.size() + 1);
}

void split_gives_groups_in_rank_order(Group& group) {
  const int color = group.rank() % 2;
  const std::unique_ptr<Group> part = group.split(color);
  EXPECT_EQ(part->size(), (group.size() + 1 - color) / 2);
  EXPECT_EQ(part->rank(), group.rank() / 2);
  EXPECT_EQ(part->name(), group.name());
  EXPECT_EQ(part->least(group.rank()), color);
  all_to_all_moves_block_d_to_rank_d(*part);
  // Parts of parts, and the whole again.
  const std::unique_ptr<Group> alone = part->split(part->rank());
  EXPECT_EQ(alone->size(), 1);
  all_gather_and_share_give_every_rank_in_order(*alone);
  least_is_the_smallest_of_all(group);
}

void one_rank_refuses_so_all_refuse_with_its_sentence(Group& group) {
  EXPECT_FALSE(agree(group, {}));
  for (int refusing = 0; refusing < group.size(); ++refusing) {
    Reason mine;
    const Where where{"tp", "w2_sf", 3, 4, 5, refusing};
    if (group.rank() == refusing)
      mine = Reason("rank " + std::to_string(refusing) + " is blue", "c", where);
    const Agreed agreed = agree(group, mine);
    EXPECT_EQ(agreed.text(), "rank " + std::to_string(refusing) + " is blue");
    EXPECT_EQ(agreed.reasons.size(), 1U);
    if (agreed.reasons.size() != 1) continue;
    EXPECT_EQ(agreed.reasons[0].rank, refusing);
    EXPECT_EQ(agreed.reasons[0].reason.cause(), "c");
    EXPECT_EQ(agreed.reasons[0].reason.where(), where);
  }
  least_is_the_smallest_of_all(group);
}

void several_ranks_refuse_with_the_lowest_ones_sentence(Group& group) {
  const Agreed agreed = agree(group, Reason(std::string(group.rank() + 1, 'x')));
  const int more = group.size() - 1;
  std::string want = "x";
  if (more > 0) want += ", and " + std::to_string(more) + " more rank" + (more == 1 ? "" : "s");
  EXPECT_EQ(agreed.text(), want);
  EXPECT_EQ(agreed.reasons.size(), static_cast<std::size_t>(group.size()));
  EXPECT_EQ(agreed.reasons.back().reason.text(), std::string(group.size(), 'x'));
}

void refuse_together_throws_on_every_rank_and_the_group_goes_on(Group& group) {
  for (int refusing = 0; refusing < group.size(); ++refusing) {
    const Reason mine = group.rank() == refusing ? Reason("no room") : Reason();
    std::string caught;
    try {
      refuse_together(group, mine, "cannot begin");
    } catch (const Refusal& refusal) {
      caught = refusal.what();
    }
    EXPECT_EQ(caught, "cannot begin: no room") << refusing;
  }
  refuse_together(group, {}, "cannot begin");
  least_is_the_smallest_of_all(group);
}

void share_texts_keeps_lengths_and_zero_bytes(Group& group) {
  const std::string mine = std::string(3 * group.rank(), 'a') + std::string(1, '\0');
  const std::vector<std::string> texts = share_texts(group, mine);
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(group.size()));
  for (int rank = 0; rank < static_cast<int>(texts.size()); ++rank) {
    EXPECT_EQ(texts[rank], std::string(3 * rank, 'a') + std::string(1, '\0'));
  }
  EXPECT_EQ(share_texts(group, "").back(), "");
}

}  // namespace

std::vector<Conformance> conformances() {
  return {
      {"all_to_all_moves_block_d_to_rank_d", all_to_all_moves_block_d_to_rank_d},
      {"all_to_others_keeps_the_own_block", all_to_others_keeps_the_own_block},
      {"exchanges_are_each_by_itself", exchanges_are_each_by_itself},
      {"all_gather_and_share_give_every_rank_in_order",
       all_gather_and_share_give_every_rank_in_order},
      {"all_gathers_are_each_by_itself", all_gathers_are_each_by_itself},
      {"broadcast_gives_the_roots_bytes", broadcast_gives_the_roots_bytes},
      {"least_is_the_smallest_of_all", least_is_the_smallest_of_all},
      {"split_gives_groups_in_rank_order", split_gives_groups_in_rank_order},
      {"one_rank_refuses_so_all_refuse_with_its_sentence",
       one_rank_refuses_so_all_refuse_with_its_sentence},
      {"several_ranks_refuse_with_the_lowest_ones_sentence",
       several_ranks_refuse_with_the_lowest_ones_sentence},
      {"refuse_together_throws_on_every_rank_and_the_group_goes_on",
       refuse_together_throws_on_every_rank_and_the_group_goes_on},
      {"share_texts_keeps_lengths_and_zero_bytes", share_texts_keeps_lengths_and_zero_bytes},
  };
}

}  // namespace slicecheck::group
