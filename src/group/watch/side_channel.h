// How ranks talk while the transport is stuck: each listens on TCP ports of its own, and a question
// is one connection. Nothing is kept open, so nothing needs to be repaired; who does not answer in
// time is stopped or cut off, who refuses is gone. Each rank has two words by lot, which the ranks
// tell each other over the transport: the one opens a question to it, the other its answers. Who
// does not know the first is not heard, who does not say the second is not that rank of this
// launch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "group/watch/sockets.h"

namespace slicecheck::group {

/// What came of asking a rank.
struct Heard {
  enum class Outcome { answered, gone, silent };
  Outcome outcome = Outcome::silent;
  std::string text;
};

/// One rank's end. Answers on a thread of its own, also while the rank is in a call. Nothing is
/// opened before listen().
class SideChannel {
 public:
  /// What a rank answers to a question; called on the channel's thread.
  using Answer = std::function<std::string(const std::string& question)>;

  explicit SideChannel(Answer answer) : answer_(std::move(answer)) {}
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// This host, for the others: its network and its addresses.
  static std::string host();

  /// Begins to listen: on loopback, and where there are ranks on other hosts (`hosts`: every rank's
  /// host()) on the addresses that lead to them. Returns where this rank can be asked and its two
  /// words, for the others; empty where it cannot.
  std::string listen(const std::vector<std::string>& hosts);

  /// From now on ranks can be asked. `places` is what listen() has returned, by rank.
  void meet(const std::vector<std::string>& places);

  /// Before ranks meet, those of one host find each other by their numbers in `launch`, the name of
  /// the launch on this host: in place of listen() and meet().
  void meet_here(const std::string& launch, int rank, int ranks);

  /// Asks these ranks at once, and waits at most `limit`. In the order of `ranks`.
  std::vector<Heard> ask(const std::vector<int>& ranks, const std::string& question,
                         std::chrono::milliseconds limit) const;

  /// Waits until all that had been asked of this rank before this call is answered, wherever it
  /// came in; at most `limit`. A process that was stopped has much of it when it wakes.
  void catch_up(std::chrono::milliseconds limit);

 private:
  struct Guest;
  struct Peer {
    std::string question_word;
    std::string answer_word;
    std::vector<Endpoint> places;
  };

  void begin();
  void serve(const std::stop_token& stop);
  /// One look at all of them. True where nobody new had come, and each that is left is heard.
  bool attend_all(std::vector<Guest>& guests, std::chrono::milliseconds limit) const;
  void attend(Guest& guest) const;
  void admit(std::vector<Guest>& guests) const;
  Heard ask_one(const Peer& peer, const std::string& question,
                std::chrono::milliseconds limit) const;
  void caught_up_with(int call);

  Answer answer_;
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;
  std::vector<Listener> listeners_;
  std::string question_word_;
  std::string answer_word_;
  Socket woken_;  // what the thread waits for besides: a stop, or a call of catch_up()
  std::mutex mutex_;
  std::condition_variable caught_up_;
  std::atomic<int> calls_ = 0;  // of catch_up()
  int calls_caught_up_ = 0;     // guarded by mutex_
  std::jthread thread_;
};

}  // namespace slicecheck::group
