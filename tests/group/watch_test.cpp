// What ranks say of themselves and hear of each other when the transport is stuck.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "group/local/local_group.h"
#include "group/watch/side_channel.h"
#include "group/watch/watched_group.h"

namespace slicecheck::group {
namespace {

using std::chrono::milliseconds;
using Outcome = Heard::Outcome;

constexpr milliseconds limit{500};

std::string echo(const std::string& question) { return "heard " + question + "\nand more"; }

/// A port of this host on which connections are taken and never answered.
class Deaf {
 public:
  Deaf() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof any;
    ::bind(fd_, reinterpret_cast<sockaddr*>(&any), size);
    ::listen(fd_, 8);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&any), &size);
    port_ = ntohs(any.sin_port);
  }
  ~Deaf() { ::close(fd_); }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

/// `address` with another port.
std::string at_port(const std::string& address, int port) {
  return address.substr(0, address.find(' ') + 1) + std::to_string(port);
}

TEST(SideChannel, tells_who_answers_who_is_gone_and_who_is_silent) {
  SideChannel asking(echo);
  SideChannel answering(echo);
  const Deaf deaf;
  std::string gone;
  {
    const SideChannel closed(echo);
    gone = closed.address();
  }
  const std::vector<std::string> addresses{asking.address(), answering.address(), gone,
                                           at_port(asking.address(), deaf.port()), ""};
  asking.meet(addresses, "token");
  answering.meet(addresses, "token");
  const std::vector<Heard> heard = asking.ask({1, 2, 3, 4}, "state 1", limit);
  ASSERT_EQ(heard.size(), 4U);
  EXPECT_EQ(heard[0].outcome, Outcome::answered);
  EXPECT_EQ(heard[0].text, "heard state 1\nand more");
  EXPECT_EQ(heard[1].outcome, Outcome::gone);
  EXPECT_EQ(heard[2].outcome, Outcome::silent);
  EXPECT_EQ(heard[3].outcome, Outcome::silent);
}

TEST(SideChannel, answers_no_stranger) {
  SideChannel asking(echo);
  SideChannel answering(echo);
  const std::vector<std::string> addresses{asking.address(), answering.address()};
  asking.meet(addresses, "another");
  answering.meet(addresses, "token");
  EXPECT_NE(asking.ask({1}, "state", limit)[0].outcome, Outcome::answered);
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
  });
  const Standing standing = notes.standing();
  EXPECT_EQ(standing.phase, "reshard");
  EXPECT_EQ(standing.call, "");
  EXPECT_EQ(standing.sequence, 7);  // the phase, and three calls in and out
  EXPECT_EQ(text({"verify", "share", 4, milliseconds(1500)}),
            "in phase verify, in share, at step 4, for 1.5 s");
}

}  // namespace
}  // namespace slicecheck::group
