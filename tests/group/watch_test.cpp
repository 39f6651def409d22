// What ranks say of themselves and hear of each other when the transport is stuck.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <random>
#include <thread>

#include "group/local/local_group.h"
#include "group/watch/side_channel.h"
#include "group/watch/watched_group.h"

namespace slicecheck::group {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Outcome = Heard::Outcome;

constexpr milliseconds limit{500};

std::string echo(const std::string& question) { return "heard " + question + "\nand more"; }

/// A port of this host on which connections are taken and never answered.
class Deaf {
 public:
  explicit Deaf(const std::string& address = "127.0.0.1") : listener_(listening(address).value()) {}
  int port() const { return listener_.at.port; }

 protected:
  Listener listener_;
};

/// One that says to everybody what it was told, and the end of an answer behind it.
class Parrot : public Deaf {
 public:
  ~Parrot() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  void serve(const std::stop_token& stop) const {
    while (!stop.stop_requested()) {
      if (!ready(listener_.socket.get(), POLLIN, Clock::now() + milliseconds(10))) continue;
      const Socket guest = next_guest(listener_);
      std::string heard(4096, ' ');
      if (!ready(guest.get(), POLLIN, Clock::now() + limit)) continue;
      heard.resize(::recv(guest.get(), heard.data(), heard.size(), 0));
      heard += '\x04';
      EXPECT_EQ(::send(guest.get(), heard.data(), heard.size(), MSG_NOSIGNAL), heard.size());
    }
  }
  std::jthread thread_{[this](const std::stop_token& stop) { serve(stop); }};
};

/// Where a rank can be asked, as listen() says it: two words, an address and a port.
std::string place(const std::string& words_of, int port) {
  return words_of.substr(0, words_of.find(" 127")) + " 127.0.0.1 " + std::to_string(port);
}

int port_of(const std::string& place) { return std::stoi(place.substr(place.rfind(' '))); }

std::vector<std::string> one_host(int ranks) {
  return std::vector<std::string>(ranks, SideChannel::host());
}

TEST(SideChannel, tells_who_answers_who_is_gone_and_who_is_silent) {
  SideChannel asking(echo);
  SideChannel answering(echo);
  const Deaf deaf;
  const std::vector<std::string> hosts = one_host(5);
  std::string gone;
  {
    SideChannel closed(echo);
    gone = closed.listen(hosts);
  }
  const std::string first = asking.listen(hosts);
  const std::vector<std::string> places{first, answering.listen(hosts), gone,
                                        place(first, deaf.port()), ""};
  asking.meet(places);
  answering.meet(places);
  const std::vector<Heard> heard = asking.ask({1, 2, 3, 4}, "state 1", limit);
  ASSERT_EQ(heard.size(), 4U);
  EXPECT_EQ(heard[0].outcome, Outcome::answered);
  EXPECT_EQ(heard[0].text, "heard state 1\nand more");
  EXPECT_EQ(heard[1].outcome, Outcome::gone);
  EXPECT_EQ(heard[2].outcome, Outcome::silent);
  EXPECT_EQ(heard[3].outcome, Outcome::silent);
}

TEST(SideChannel, takes_no_rank_for_another) {
  SideChannel asking(echo);
  SideChannel living(echo);
  SideChannel dead(echo);
  const std::vector<std::string> hosts = one_host(3);
  const std::string first = asking.listen(hosts);
  const std::string second = living.listen(hosts);
  // Rank 2 has gone, and where it listened a rank listens that goes on.
  const std::vector<std::string> places{first, second, place(dead.listen(hosts), port_of(second))};
  asking.meet(places);
  living.meet(places);
  const std::vector<Heard> heard = asking.ask({1, 2}, "state", limit);
  EXPECT_EQ(heard[0].outcome, Outcome::answered);
  EXPECT_NE(heard[1].outcome, Outcome::answered);
}

TEST(SideChannel, believes_no_stranger_that_repeats_what_it_hears) {
  SideChannel asking(echo);
  SideChannel dead(echo);
  const Parrot parrot;
  const std::vector<std::string> hosts = one_host(2);
  asking.meet({asking.listen(hosts), place(dead.listen(hosts), parrot.port())});
  EXPECT_NE(asking.ask({1}, "state", limit)[0].outcome, Outcome::answered);
}

TEST(SideChannel, listens_on_loopback_alone_where_all_ranks_are_on_one_host) {
  SideChannel channel(echo);
  const std::string place = channel.listen(one_host(2));
  EXPECT_EQ(std::count(place.begin(), place.end(), ' '), 3) << place;
  EXPECT_NE(place.find(" 127.0.0.1 "), std::string::npos) << place;
  // What listens everywhere listens there too.
  const Connected to = connected({{"127.0.0.2", port_of(place)}}, Clock::now() + limit);
  EXPECT_LT(to.at, 0);
}

TEST(SideChannel, asks_nobody_at_an_address_that_every_host_has) {
  SideChannel asking(echo);
  SideChannel other(echo);
  const Deaf deaf;
  const std::string own = SideChannel::host();
  const std::string elsewhere = "elsewhere" + own.substr(own.find(' '));
  // Loopback is every host's; so are the addresses that this host has.
  const std::string first = asking.listen({own, elsewhere});
  EXPECT_EQ(std::count(first.begin(), first.end(), ' '), 3) << first;
  asking.meet({first, place(other.listen({own, own}), deaf.port())});
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(asking.ask({1}, "state", milliseconds(10000))[0].outcome, Outcome::silent);
  EXPECT_LT(Clock::now() - start, milliseconds(5000));
}

/// Connections of strangers that say `bytes` each and stay.
std::vector<Socket> strangers(const std::string& place, const std::vector<std::string>& bytes) {
  std::vector<Socket> made;
  for (const std::string& each : bytes) {
    Connected to = connected({{"127.0.0.1", port_of(place)}}, Clock::now() + limit);
    if (to.at < 0) continue;
    for (std::size_t at = 0; at < each.size();) {
      if (!ready(to.socket.get(), POLLOUT, Clock::now() + limit)) break;
      const ssize_t part =
          ::send(to.socket.get(), each.data() + at, each.size() - at, MSG_NOSIGNAL);
      if (part <= 0) break;
      at += static_cast<std::size_t>(part);
    }
    made.push_back(std::move(to.socket));
  }
  return made;
}

TEST(SideChannel, strangers_are_neither_heard_nor_waited_for) {
  std::atomic<int> questions = 0;
  SideChannel asking(echo);
  SideChannel answering([&](const std::string& question) {
    ++questions;
    return echo(question);
  });
  const std::vector<std::string> hosts = one_host(2);
  const std::vector<std::string> places{asking.listen(hosts), answering.listen(hosts)};
  asking.meet(places);
  answering.meet(places);
  std::mt19937 random(8);
  std::vector<std::string> bytes(300);  // silent ones first
  const std::string word = places[1].substr(0, places[1].find(' '));
  for (const std::string& each :
       {std::string(1, '\n'), std::string(100000, 'x'), word, word + "\n", word.substr(1) + " a\n",
        "x" + word + " ended 0\n", std::string(4096, '\0'), word + " " + std::string(5000, 'y')}) {
    bytes.push_back(each);
  }
  for (int i = 0; i < 100; ++i) {
    std::string some(random() % 5000, ' ');
    for (char& each : some) each = static_cast<char>(random());
    bytes.push_back(some);
  }
  const std::vector<Socket> kept = strangers(places[1], bytes);
  EXPECT_GT(kept.size(), 300U);
  const std::vector<Heard> heard = asking.ask({1}, "state", limit);
  EXPECT_EQ(heard[0].outcome, Outcome::answered);
  EXPECT_EQ(questions, 1);
}

TEST(SideChannel, catches_up_with_all_that_came_while_it_was_busy) {
  constexpr int asked = 20;
  std::atomic<int> answered = 0;
  SideChannel asking(echo);
  SideChannel busy([&](const std::string& question) {
    std::this_thread::sleep_for(milliseconds(5));
    ++answered;
    return echo(question);
  });
  const std::vector<std::string> hosts = one_host(2);
  const std::vector<std::string> places{asking.listen(hosts), busy.listen(hosts)};
  asking.meet(places);
  const std::string word = places[1].substr(0, places[1].find(' '));
  const std::vector<Socket> kept =
      strangers(places[1], std::vector<std::string>(asked, word + " state\n"));
  ASSERT_EQ(kept.size(), asked);
  busy.meet(places);  // as if it woke: all of it waits
  busy.catch_up(std::chrono::seconds(20));
  EXPECT_EQ(answered, asked);
  busy.catch_up(std::chrono::seconds(20));  // nothing waits: not for long
}

TEST(SideChannel, catches_up_no_longer_than_it_may) {
  std::latch waited(1);
  SideChannel busy([&](const std::string& question) {
    waited.wait();
    return echo(question);
  });
  const std::vector<std::string> places{busy.listen(one_host(1))};
  const std::string word = places[0].substr(0, places[0].find(' '));
  const std::vector<Socket> kept = strangers(places[0], {word + " state\n"});
  ASSERT_EQ(kept.size(), 1U);
  busy.meet(places);
  busy.catch_up(milliseconds(20));
  waited.count_down();
}

TEST(Notes, tell_phase_call_and_steps) {
  Notes notes;
  EXPECT_EQ(notes.standing().phase, "start");
  run_local({.ranks = 1}, [&](Group& world) {
    WatchedGroup watched(world, notes);
    notes.phase("reshard");
    watched.least(1);
    const std::unique_ptr<Group> part = watched.split(0);
    part->least(1);
    watched.exchange({{}, {}});
  });
  const Standing standing = notes.standing();
  EXPECT_EQ(standing.phase, "reshard");
  EXPECT_EQ(standing.call, "");
  EXPECT_EQ(standing.sequence, 9);  // the phase, and four calls in and out
  EXPECT_EQ(text({"verify", "share", 4, milliseconds(1500)}),
            "in phase verify, in share, at step 4, for 1.5 s");
}

}  // namespace
}  // namespace slicecheck::group
