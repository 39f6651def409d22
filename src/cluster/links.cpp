#include "cluster/links.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <numeric>

#include "cluster/rounds.h"
#include "group/agree.h"
#include "group/shared.h"
#include "layout/payload.h"

namespace slicecheck::cluster {
namespace {

using group::Group;
using Buffer = std::shared_ptr<std::uint8_t>;

constexpr int slow_times =
    4;  // a link of a quarter of the rate has lost lanes, or goes another way
constexpr int alone_times = 10;
constexpr const char* alone = "one rank is no pair";
constexpr std::int64_t odd_bytes = 4099;
constexpr std::size_t alone_max = 16;  // links that are measured again

/// What a rank has seen of another one; it travels as it is.
struct Seen {
  std::int64_t differing = 0;
  std::int64_t first = -1;
  double best_seconds = 0;
  double seconds = 0;
};

/// The `bytes` bytes that `from` sends `to`.
std::vector<std::uint8_t> block_of(const LinkOptions& options, int from, int to,
                                   std::int64_t bytes) {
  constexpr std::int64_t word = sizeof(std::uint64_t);
  std::vector<std::uint8_t> made((bytes + word - 1) / word * word);
  const std::uint64_t pair = (static_cast<std::uint64_t>(from) << 32) + static_cast<unsigned>(to);
  const std::uint64_t key = layout::mix64(options.seed ^ layout::mix64(pair + 1));
  for (std::int64_t i = 0; i < std::ssize(made) / word; ++i) {
    const std::uint64_t value = layout::mix64(key + static_cast<std::uint64_t>(i));
    std::memcpy(made.data() + i * word, &value, word);
  }
  made.resize(bytes);
  return made;
}

Buffer room(Group& group, std::int64_t bytes, std::string_view purpose) {
  return group::agreed(group, group.space().allocate(bytes, purpose), "cannot try the links");
}

/// Two ranks that send each other a block at once, `times` times.
class Exchange {
 public:
  Exchange(Group& group, const LinkOptions& options)
      : group_(group),
        options_(options),
        sent_(room(group, 2 * options.bytes, "blocks to send")),
        received_(room(group, 2 * options.bytes, "blocks that come")),
        due_(room(group, options.bytes, "the block that is due")) {}

  /// `times` times with `other`, in the part of the group that is the two of them, or this rank
  /// alone. Seconds at the best and in the middle.
  Seen with(int other, Group& pair, int times) {
    const int own = group_.rank();
    if (other == own) return {};
    memory::Space& space = group_.space();
    const std::int64_t place = (1 - pair.rank()) * options_.bytes;
    space.upload(sent_.get() + place, Bytes(block_of(options_, own, other, options_.bytes)));
    space.upload(due_.get(), Bytes(block_of(options_, other, own, options_.bytes)));
    std::vector<double> seconds;
    Seen made;
    for (int time = 0; time < times; ++time) {
      space.fill(received_.get(), static_cast<std::uint8_t>(time), 2 * options_.bytes);
      seconds.push_back(timed(pair));
      const auto found = space.compare(received_.get() + place, due_.get(), options_.bytes);
      if (made.first < 0) made.first = found.first;
      made.differing += found.differing;
    }
    std::sort(seconds.begin(), seconds.end());
    made.best_seconds = seconds.front();
    made.seconds = seconds[seconds.size() / 2];
    return made;
  }

 private:
  double timed(Group& pair) {
    using Clock = std::chrono::steady_clock;
    group_.space().synchronise();
    pair.least(0);
    const Clock::time_point start = Clock::now();
    pair.all_to_others(received_.get(), sent_.get(), options_.bytes);
    group_.space().synchronise();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Group& group_;
  const LinkOptions& options_;
  Buffer sent_;
  Buffer received_;
  Buffer due_;
};

/// The links of all pairs of `size` ranks, lowest first.
std::vector<Link> pairs_of(int size) {
  std::vector<Link> made;
  for (int low = 0; low < size; ++low) {
    for (int high = low + 1; high < size; ++high) made.push_back({low, high});
  }
  return made;
}

/// What both of a pair have seen, as one.
Seen both(const Seen& low, const Seen& high) {
  return {low.differing + high.differing, low.first >= 0 ? low.first : high.first,
          std::max(low.best_seconds, high.best_seconds), std::max(low.seconds, high.seconds)};
}

/// The pairs of `size` ranks, each of which has moved `moved` bytes; `rows` has what rank r has
/// seen of rank s at [r, s].
std::vector<Link> links_of(const std::vector<Seen>& rows, int size, std::int64_t moved) {
  std::vector<Link> made = pairs_of(size);
  for (Link& link : made) {
    const Seen seen = both(rows[link.low * size + link.high], rows[link.high * size + link.low]);
    link.differing = seen.differing;
    link.first = seen.first;
    link.seconds = seen.seconds;
    link.moved = moved;
  }
  return made;
}

/// Bytes of a block of each exchange of all ranks.
std::array<std::int64_t, 3> exchanged_bytes(const LinkOptions& options) {
  return {1, odd_bytes, std::max<std::int64_t>(options.bytes / std::ssize(options.hosts), 1)};
}

std::int64_t exchanged_of_pair(const LinkOptions& options) {
  const auto bytes = exchanged_bytes(options);
  return 2 * std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

bool across(const Link& link, const LinkOptions& options) {
  return options.hosts[link.low] != options.hosts[link.high];
}

/// Links of a class are alike where nothing is wrong.
using Class = std::vector<Link*>;

std::vector<Class> classes_of(std::vector<Link>& links, const LinkOptions& options) {
  std::vector<Class> made(2);
  for (Link& link : links) {
    const bool between = across(link, options);
    if (between || options.within_hosts) made[between ? 1 : 0].push_back(&link);
  }
  return made;
}

/// Of a class the links that took `slow_times` as long as the fastest, and that one, when there are
/// any; by the time that `of` says.
Class suspects(const Class& links, double Link::*of, double noise_seconds) {
  Class made;
  if (links.empty()) return made;
  const auto sooner = [&](const Link* a, const Link* b) { return a->*of < b->*of; };
  Link* const fastest = *std::min_element(links.begin(), links.end(), sooner);
  for (Link* const link : links) {
    const double more = link->*of - fastest->*of;
    if (link->*of > slow_times * fastest->*of && more > noise_seconds) made.push_back(link);
  }
  if (!made.empty()) made.insert(made.begin(), fastest);
  return made;
}

/// The first, and of the others as many as are measured again, from all over.
Class some_of(const Class& links) {
  if (links.size() <= alone_max) return links;
  Class made{links.front()};
  for (std::size_t i = 1; i < alone_max; ++i) {
    made.push_back(links[1 + (i - 1) * (links.size() - 1) / (alone_max - 1)]);
  }
  return made;
}

std::string between(const Link& link) {
  if (link.low == link.high) return fmt::format("from rank {} to itself", link.low);
  return fmt::format("between rank {} and rank {}", link.low, link.high);
}

/// Whether all these links have an end for which `has` holds.
template <typename Has>
bool all_end_at(const std::vector<const Link*>& links, Has has) {
  return std::all_of(links.begin(), links.end(),
                     [&](const Link* link) { return has(link->low) || has(link->high); });
}

/// The one rank that several links share; else the ranks of the one host that all of them lead to;
/// else all of their ends.
std::vector<int> ranks_of(const std::vector<const Link*>& bad, const LinkOptions& options) {
  const std::array<int, 2> ends{bad.front()->low, bad.front()->high};
  for (const int rank : ends) {
    const bool shared = all_end_at(bad, [&](int end) { return end == rank; });
    if (shared && bad.size() > 1) return {rank};
  }
  const auto leads_to = [&](int of) {
    return all_end_at(bad, [&](int end) { return options.hosts[end] == options.hosts[of]; });
  };
  const bool low = leads_to(ends[0]);
  const bool one_host = low != leads_to(ends[1]);
  const std::string& host = options.hosts[low ? ends[0] : ends[1]];
  std::vector<int> made;
  for (const Link* const link : bad) {
    for (const int rank : {link->low, link->high}) {
      if (!one_host || options.hosts[rank] == host) made.push_back(rank);
    }
  }
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
  return made;
}

std::string others(std::size_t links) {
  return links < 2 ? std::string() : fmt::format(", and {} more pairs", links - 1);
}

double rate(const LinkOptions& options, double seconds) {
  return 1e-9 * static_cast<double>(options.bytes) / seconds;
}

/// What these links have changed, under this id; `moved` bytes of each are what is always moved.
Said changed(std::string id, const std::vector<Link>& links, const LinkOptions& options,
             std::int64_t moved) {
  Said made{std::move(id), moved * std::ssize(links), 0, {}, {}, {}};
  std::vector<const Link*> bad;
  for (const Link& link : links) {
    made.differing += link.differing;
    if (link.differing > 0) bad.push_back(&link);
  }
  if (bad.empty()) return made;
  made.faults.push_back(
      {"transport-corruption", ranks_of(bad, options),
       fmt::format("{} of {} bytes changed {}, the first at byte {}{}", bad.front()->differing,
                   bad.front()->moved, between(*bad.front()), bad.front()->first,
                   others(bad.size()))});
  return made;
}

/// Of a class the links that are slow: those that were so alone too, and where each suspect that
/// was tried alone was, all suspects; behind the fastest. Empty where none is.
Class slow_ones(const Class& links, const LinkOptions& options) {
  Class tried;
  std::copy_if(links.begin(), links.end(), std::back_inserter(tried),
               [](const Link* link) { return link->alone_seconds > 0; });
  Class slow = suspects(tried, &Link::alone_seconds, options.noise_seconds);
  const Class before = suspects(links, &Link::seconds, options.noise_seconds);
  const auto is_slow = [&](const Link* link) {
    return std::find(slow.begin(), slow.end(), link) != slow.end();
  };
  const bool all = std::none_of(before.begin(), before.end(), [&](const Link* link) {
    return link != before.front() && link->alone_seconds > 0 && !is_slow(link);
  });
  if (slow.empty() || !all) return slow;
  for (std::size_t i = 1; i < before.size(); ++i) {
    if (!is_slow(before[i])) slow.push_back(before[i]);
  }
  return slow;
}

Said rates(std::vector<Link> links, const LinkOptions& options) {
  Said made{options.name + ".links", 0, 0, {}, {}, {}};
  std::vector<double> seconds;
  for (const Link& link : links) seconds.push_back(link.seconds);
  std::sort(seconds.begin(), seconds.end());
  made.text =
      fmt::format("{:.2f} to {:.2f} GB/s each way, median {:.2f}", rate(options, seconds.back()),
                  rate(options, seconds.front()), rate(options, seconds[seconds.size() / 2]));
  for (const Class& each : classes_of(links, options)) {
    if (each.size() > 1) made.compared += std::ssize(each);
    const Class slow = slow_ones(each, options);
    if (slow.empty()) continue;
    const std::vector<const Link*> bad(slow.begin() + 1, slow.end());
    made.differing += std::ssize(bad);
    made.faults.push_back(
        {"slow-link", ranks_of(bad, options),
         fmt::format("{:.3f} GB/s {}{}; {:.3f} GB/s {}", rate(options, bad[0]->alone_seconds),
                     between(*bad[0]), others(bad.size()), rate(options, slow[0]->alone_seconds),
                     between(*slow[0])),
         !across(*bad[0], options)});
  }
  if (made.compared == 0) made.skipped = made.text + ": no two links to hold against each other";
  return made;
}

}  // namespace

std::vector<Link> links(Group& group, const LinkOptions& options) {
  const int rank = group.rank();
  Exchange exchange(group, options);
  std::vector<Seen> mine(group.size());
  for (int round = 0; round < rounds_of(group.size()); ++round) {
    const int other = partner(rank, group.size(), round);
    const std::unique_ptr<Group> pair = group.split(std::min(rank, other));
    mine[other] = exchange.with(other, *pair, options.times);
  }
  const std::int64_t moved = 2 * options.bytes * options.times;
  std::vector<Link> made = links_of(group::shared(group, mine), group.size(), moved);
  for (const Class& each : classes_of(made, options)) {
    for (Link* const link : some_of(suspects(each, &Link::seconds, options.noise_seconds))) {
      const bool meets = rank == link->low || rank == link->high;
      const int other = meets ? link->low + link->high - rank : rank;
      const std::unique_ptr<Group> pair = group.split(meets ? 0 : 1);
      const auto told = group::shared(group, exchange.with(other, *pair, alone_times));
      const Seen seen = both(told[link->low], told[link->high]);
      link->alone_seconds = seen.best_seconds;
      link->differing += seen.differing;
      link->moved += 2 * options.bytes * alone_times;
      if (link->first < 0) link->first = seen.first;
    }
  }
  return made;
}

std::vector<Link> exchange(Group& group, const LinkOptions& options) {
  memory::Space& space = group.space();
  const int size = group.size();
  const std::int64_t most = std::ranges::max(exchanged_bytes(options));
  const Buffer sent = room(group, size * most, "blocks to send");
  const Buffer received = room(group, size * most, "blocks that come");
  const Buffer due = room(group, most, "the block that is due");
  std::vector<Seen> mine(size);
  for (const std::int64_t bytes : exchanged_bytes(options)) {
    for (int to = 0; to < size; ++to) {
      space.upload(sent.get() + to * bytes, Bytes(block_of(options, group.rank(), to, bytes)));
    }
    space.fill(received.get(), 0, size * bytes);
    group.all_to_all(received.get(), sent.get(), bytes);
    for (int from = 0; from < size; ++from) {
      space.upload(due.get(), Bytes(block_of(options, from, group.rank(), bytes)));
      const auto found = space.compare(received.get() + from * bytes, due.get(), bytes);
      if (mine[from].first < 0) mine[from].first = found.first;
      mine[from].differing += found.differing;
    }
  }
  const std::vector<Seen> all = group::shared(group, mine);
  const std::int64_t moved = exchanged_of_pair(options);
  std::vector<Link> made = links_of(all, size, moved);
  for (int rank = 0; rank < size; ++rank) {
    const Seen& own = all[rank * size + rank];
    if (own.differing > 0) made.push_back({rank, rank, own.differing, own.first, 0, 0, moved / 2});
  }
  return made;
}

Said of_exchange(const std::vector<Link>& pairs, const LinkOptions& options) {
  Said made = changed(options.name + ".exchange", pairs, options, exchanged_of_pair(options));
  if (options.hosts.size() < 2 && pairs.empty()) made.skipped = alone;
  return made;
}

std::vector<Said> of_links(const std::vector<Link>& links, const LinkOptions& options) {
  if (links.empty()) {
    return {{options.name + ".bytes", 0, 0, {}, {}, alone},
            {options.name + ".links", 0, 0, {}, {}, alone}};
  }
  const std::int64_t moved = 2 * options.bytes * options.times;
  return {changed(options.name + ".bytes", links, options, moved), rates(links, options)};
}

std::string row_of(const std::vector<Link>& links, const LinkOptions& options, int rank) {
  std::string made;
  for (std::size_t other = 0; other < options.hosts.size(); ++other) {
    if (other > 0) made += ' ';
    const auto link = std::find_if(links.begin(), links.end(), [&](const Link& each) {
      const int to = static_cast<int>(other);
      return each.low == std::min(rank, to) && each.high == std::max(rank, to);
    });
    made += link == links.end() ? "-" : fmt::format("{:.2f}", rate(options, link->seconds));
  }
  return made;
}

}  // namespace slicecheck::cluster
