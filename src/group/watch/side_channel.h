// How ranks talk while the transport is stuck: each listens on a TCP port of its own, and a
// question is one connection. Nothing is kept open, so nothing needs to be repaired; who does not
// answer in time is stopped or cut off, who refuses is gone.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace slicecheck::group {

/// What came of asking a rank.
struct Heard {
  enum class Outcome { answered, gone, silent };
  Outcome outcome = Outcome::silent;
  std::string text;
};

/// One rank's end. Answers on a thread of its own, also while the rank is in a call.
class SideChannel {
 public:
  /// What a rank answers to a question; called on the channel's thread.
  using Answer = std::function<std::string(const std::string& question)>;

  explicit SideChannel(Answer answer);
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Where this rank can be asked, for the others: host, port and addresses; empty where it cannot.
  std::string address() const;

  /// From now on ranks can be asked. `token` tells this launch from others.
  void meet(std::vector<std::string> addresses, std::string token);

  /// Asks these ranks at once, and waits at most `limit`. In the order of `ranks`.
  std::vector<Heard> ask(const std::vector<int>& ranks, const std::string& question,
                         std::chrono::milliseconds limit) const;

 private:
  void serve(const std::stop_token& stop);
  void answer_one(int connection);
  Heard ask_one(int rank, const std::string& question, std::chrono::milliseconds limit) const;

  Answer answer_;
  std::vector<std::string> addresses_;
  std::string token_;
  int listener_ = -1;
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace slicecheck::group
