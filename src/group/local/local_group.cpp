#include "group/local/local_group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/must.h"
#include "group/agree.h"
#include "group/shared.h"

namespace slicecheck::group {
namespace {

/// The rank that broke a run, and in which words.
struct Failure {
  int rank = 0;
  std::string text;
};

/// What all threads of a run share: who has ended, and what broke the run.
struct World {
  explicit World(const LocalRun& of) : run(of), ended(of.ranks, false) {}

  const LocalRun run;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::optional<Failure> failure;

  /// The first failure stands: later ones follow from it.
  void fail(const Failure& with) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = with;
    changed.notify_all();
  }

  void end(int rank) {
    const std::lock_guard lock(mutex);
    ended[rank] = true;
    changed.notify_all();
  }
};

/// What the members of one group share: where they meet, and what each has put on the table.
class Circle {
 public:
  Circle(World& world, std::vector<int> members)
      : world_(world),
        members_(std::move(members)),
        table_(members_.size()),
        here_(members_.size(), false) {}

  int size() const { return static_cast<int>(members_.size()); }

  void put(int rank, const void* at) { table_[rank] = at; }

  template <typename T>
  const T* on_table(int rank) const {
    return static_cast<const T*>(table_[rank]);
  }

  /// Returns when every member has come. What was written before is seen by all after. Whoever
  /// comes when the run is broken finds nobody: those who waited may have left.
  void meet(int rank) {
    std::unique_lock lock(world_.mutex);
    if (world_.failure) lose(world_.failure->rank, world_.failure->text);
    const std::uint64_t turn = turn_;
    if (is_last(rank)) return;
    const auto over = [&] { return turn_ != turn || world_.failure || ended_member() >= 0; };
    if (!world_.run.wait_limit) {
      world_.changed.wait(lock, over);
    } else if (!world_.changed.wait_for(lock, *world_.run.wait_limit, over)) {
      world_.failure = late();
      world_.changed.notify_all();
    }
    if (turn_ != turn) return;
    if (!world_.failure) world_.failure = left();
    lose(world_.failure->rank, world_.failure->text);
  }

  /// Returns when every member has come back from what it read off the table: until then its
  /// owner may not leave, whatever else has failed. Reading blocks on nobody.
  void part(int rank) {
    std::unique_lock lock(world_.mutex);
    const std::uint64_t turn = turn_;
    if (is_last(rank)) return;
    world_.changed.wait(lock, [&] { return turn_ != turn; });
  }

  /// The circle of `ranks`, one object for all that give the same color. Collective.
  std::shared_ptr<Circle> child(int rank, int color, const std::vector<int>& ranks) {
    std::shared_ptr<Circle> made;
    {
      const std::lock_guard lock(world_.mutex);
      std::shared_ptr<Circle>& place = children_[color];
      if (!place) place = std::make_shared<Circle>(world_, world_ranks(ranks));
      made = place;
    }
    meet(rank);
    if (rank == 0) children_.clear();
    meet(rank);
    return made;
  }

 private:
  /// Notes that a member has come; the last one lets all go on.
  bool is_last(int rank) {
    here_[rank] = true;
    if (std::find(here_.begin(), here_.end(), false) != here_.end()) return false;
    here_.assign(here_.size(), false);
    ++turn_;
    world_.changed.notify_all();
    return true;
  }

  int ended_member() const {
    for (const int member : members_) {
      if (world_.ended[member]) return member;
    }
    return -1;
  }

  Failure late() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (!here_[rank]) ranks.push_back(members_[rank]);
    }
    return {ranks.front(),
            fmt::format("rank{} {} did not come within {} ms", ranks.size() == 1 ? "" : "s",
                        fmt::join(ranks, ", "), world_.run.wait_limit->count())};
  }

  Failure left() const {
    return {ended_member(), fmt::format("rank {} left while others wait for it", ended_member())};
  }

  std::vector<int> world_ranks(const std::vector<int>& ranks) const {
    std::vector<int> made;
    for (const int rank : ranks) made.push_back(members_[rank]);
    return made;
  }

  World& world_;
  const std::vector<int> members_;
  std::vector<const void*> table_;
  std::vector<bool> here_;
  std::map<int, std::shared_ptr<Circle>> children_;
  std::uint64_t turn_ = 0;
};

void copy(std::uint8_t* to, const std::uint8_t* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

class LocalGroup final : public Group {
 public:
  LocalGroup(std::shared_ptr<Circle> circle, int rank)
      : circle_(std::move(circle)), rank_(rank), space_(memory::host_space()) {}

  int rank() const override { return rank_; }
  int size() const override { return circle_->size(); }
  std::string_view name() const override { return "local"; }
  memory::Space& space() override { return *space_; }

  std::int64_t least(std::int64_t value) override {
    std::int64_t least = value;
    take_all(&value,
             [&](int other) { least = std::min(least, *circle_->on_table<std::int64_t>(other)); });
    return least;
  }

  void share(Bytes mine, MutableBytes all) override {
    must(all.size() == mine.size() * size(), "share: room for other than every rank's bytes");
    all_gather(all.data(), mine.data(), static_cast<std::int64_t>(mine.size()));
  }

  void broadcast(MutableBytes bytes, int root) override {
    take_all(bytes.data(), [&](int other) {
      if (other != root || rank_ == root) return;
      copy(bytes.data(), circle_->on_table<std::uint8_t>(other), std::ssize(bytes));
    });
  }

  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    take_all(sent, [&](int other) {
      copy(received + other * block_bytes,
           circle_->on_table<std::uint8_t>(other) + rank_ * block_bytes, block_bytes);
    });
  }

  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    take_all(sent, [&](int other) {
      copy(received + other * block_bytes, circle_->on_table<std::uint8_t>(other), block_bytes);
    });
  }

  std::unique_ptr<Group> split(int color) override {
    const std::vector<int> colors = shared(*this, color);
    std::vector<int> ranks;
    int mine = 0;
    for (int other = 0; other < size(); ++other) {
      if (colors[other] != color) continue;
      if (other == rank_) mine = static_cast<int>(ranks.size());
      ranks.push_back(other);
    }
    return std::make_unique<LocalGroup>(circle_->child(rank_, color, ranks), mine);
  }

 private:
  /// Puts `mine` on the table and calls `take` for every rank once all have put theirs. Starts with
  /// the own rank, so that the ranks do not all read the same memory at once.
  template <typename Take>
  void take_all(const void* mine, Take take) {
    circle_->put(rank_, mine);
    circle_->meet(rank_);
    for (int step = 0; step < size(); ++step) take((rank_ + step) % size());
    circle_->part(rank_);
  }

  std::shared_ptr<Circle> circle_;
  int rank_;
  std::unique_ptr<memory::Space> space_;
};

/// Runs one rank, and gives the Refusal that it ended with, if any. Any other exception breaks the
/// run.
std::exception_ptr ending(World& world, int rank, const std::function<void()>& act) {
  std::exception_ptr refusal;
  try {
    act();
  } catch (const Refusal&) {
    refusal = std::current_exception();
  } catch (const Lost& lost) {
    world.fail({lost.rank(), lost.what()});
  } catch (const std::exception& failure) {
    world.fail({rank, fmt::format("rank {}: {}", rank, failure.what())});
  } catch (...) {
    world.fail({rank, fmt::format("rank {}: an exception that has no text", rank)});
  }
  world.end(rank);
  return refusal;
}

/// Starts the ranks' threads and waits for their ends. A thread that cannot be started breaks the
/// run, so that the ranks that did start do not wait for it.
std::vector<std::exception_ptr> endings(World& world, const RankBody& body) {
  std::vector<int> members(world.run.ranks);
  std::iota(members.begin(), members.end(), 0);
  const auto circle = std::make_shared<Circle>(world, members);
  std::vector<std::exception_ptr> refusals(members.size());
  std::vector<std::jthread> threads;
  try {
    for (const int rank : members) {
      threads.emplace_back([&world, &body, &refusals, circle, rank] {
        refusals[rank] = ending(world, rank, [&] {
          LocalGroup group(circle, rank);
          body(group);
        });
      });
    }
  } catch (const std::exception& failure) {
    const int rank = static_cast<int>(threads.size());
    world.fail({rank, fmt::format("rank {}: {}", rank, failure.what())});
  }
  for (std::jthread& thread : threads) thread.join();
  return refusals;
}

}  // namespace

void run_local(const LocalRun& run, const RankBody& body) {
  must(run.ranks > 0, "a group of no ranks");
  World world(run);
  const std::vector<std::exception_ptr> refusals = endings(world, body);
  if (world.failure) lose(world.failure->rank, world.failure->text);
  for (const std::exception_ptr& refusal : refusals) {
    if (refusal) std::rethrow_exception(refusal);
  }
}

}  // namespace slicecheck::group
