// The laws of ranks together, whatever carries their bytes.
#include <fmt/format.h>

#include "properties/law.h"

namespace slicecheck::properties {
namespace {

// A byte that names the pair of ranks and its place: each differs from its neighbours.
std::uint8_t byte_between(int from, int to, std::int64_t at) {
  const auto key = static_cast<std::uint64_t>((from * 64 + to) * (std::int64_t{1} << 32) + at);
  return static_cast<std::uint8_t>(layout::mix64(key));
}

// A block as large as one slice of w2_sf of the case.
std::int64_t block_bytes(const Case& given) {
  return layout::cut(layout::Kind::w2_sf, given.shape).slice_bytes();
}

Reason misplaced_byte(const ByteVector& received, int rank, std::int64_t block, bool gathered) {
  for (std::int64_t at = 0; at < std::ssize(received); ++at) {
    const int from = static_cast<int>(at / block);
    const std::uint8_t due = byte_between(from, gathered ? 0 : rank, at % block);
    if (received[at] != due) {
      return Reason(fmt::format("rank {} has {:02x} at byte {} of rank {}'s block, expected {:02x}",
                                rank, received[at], at % block, from, due));
    }
  }
  return {};
}

Reason all_to_all_brings_block_r_of_every_rank(const Case& given, const Subject& subject,
                                               group::Group& group) {
  const std::int64_t block = block_bytes(given);
  ByteVector sent(static_cast<std::size_t>(block * group.size()));
  ByteVector received(sent.size());
  for (std::int64_t at = 0; at < std::ssize(sent); ++at) {
    sent[at] = byte_between(group.rank(), static_cast<int>(at / block), at % block);
  }
  subject.all_to_all(group, received.data(), sent.data(), block);
  return misplaced_byte(received, group.rank(), block, false);
}

Reason all_gather_brings_every_rank_in_order(const Case& given, const Subject& subject,
                                             group::Group& group) {
  const std::int64_t block = block_bytes(given);
  ByteVector sent(static_cast<std::size_t>(block));
  ByteVector received(static_cast<std::size_t>(block * group.size()));
  for (std::int64_t at = 0; at < block; ++at) sent[at] = byte_between(group.rank(), 0, at);
  subject.all_gather(group, received.data(), sent.data(), block);
  return misplaced_byte(received, group.rank(), block, true);
}

// Who refuses in a case: each rank by a bit of the seed, so none, some or all.
bool refuses(const Case& given, int rank) {
  return (layout::mix64(given.payload.seed) >> rank & 1) != 0;
}

std::string sentence(int rank) { return fmt::format("rank {} has its own reason", rank); }

std::string agreed_text(const Case& given, int size) {
  int first = -1;
  int more = -1;
  for (int rank = 0; rank < size; ++rank) {
    if (!refuses(given, rank)) continue;
    if (first < 0) first = rank;
    ++more;
  }
  if (first < 0) return {};
  if (more == 0) return sentence(first);
  return fmt::format("{}, and {} more rank{}", sentence(first), more, more == 1 ? "" : "s");
}

Reason all_refuse_with_the_lowest_rank_s_sentence(const Case& given, const Subject& subject,
                                                  group::Group& group) {
  const Reason mine = refuses(given, group.rank()) ? Reason(sentence(group.rank())) : Reason();
  const std::string text = subject.agree(group, mine).text();
  const std::string due = agreed_text(given, group.size());
  if (text == due) return {};
  return Reason(fmt::format("rank {} was told \"{}\", expected \"{}\"", group.rank(), text, due));
}

}  // namespace

std::vector<Law> group_laws() {
  using enum Dimension;
  return {
      {"Group.all_to_all_brings_block_r_of_every_rank",
       Draw::valid,
       {tp, hidden_tiles, slice_tiles},
       nullptr,
       all_to_all_brings_block_r_of_every_rank},
      {"Group.all_gather_brings_every_rank_in_order",
       Draw::valid,
       {tp, hidden_tiles, slice_tiles},
       nullptr,
       all_gather_brings_every_rank_in_order},
      {"Agree.all_refuse_with_the_lowest_rank_s_sentence",
       Draw::valid,
       {tp},
       nullptr,
       all_refuse_with_the_lowest_rank_s_sentence},
  };
}

}  // namespace slicecheck::properties
