// The program as it is shipped, over a group that goes wrong on request. SLICECHECK_FAULT is "KIND
// RANK PHASE CALL": at the CALLth call of that phase, on that rank of the world. `corrupt` and
// `truncate` wait for the next exchange of payload in that phase.
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>

#include "app/program.h"
#include "group/agree.h"
#include "group/forwarding.h"
#include "properties/law.h"

namespace {

using namespace slicecheck;

struct Fault {
  std::string kind;
  int rank = -1;
  std::string phase;
  int call = 0;
};

Fault asked_for() {
  Fault made;
  const char* text = std::getenv("SLICECHECK_FAULT");
  std::istringstream words(text == nullptr ? "" : text);
  words >> made.kind >> made.rank >> made.phase >> made.call;
  return made;
}

/// Shared by a group and the parts of it.
struct Count {
  Fault fault = asked_for();
  int calls = 0;
  bool spent = false;
};

void act(const std::string& kind) {
  const auto raised = [](auto exception) {
    std::rethrow_exception(std::make_exception_ptr(std::move(exception)));
  };
  if (kind == "throw") raised(std::runtime_error("thrown on request"));
  if (kind == "bad_alloc") raised(std::bad_alloc());
  // This rank believes that all have refused, and leaves the command alone.
  if (kind == "return") raised(group::Refusal("left early on request", {}));
  if (kind == "exit0") ::_exit(0);
  if (kind == "stop") ::raise(SIGSTOP);
  if (kind == "kill") ::raise(SIGKILL);
  for (const auto& [name, signal] :
       {std::pair("term", SIGTERM), {"int", SIGINT}, {"hup", SIGHUP}}) {
    if (kind == name) ::kill(::getpid(), signal);
  }
  if (kind == "command" && std::system(std::getenv("SLICECHECK_FAULT_COMMAND")) != 0) ::_exit(9);
  for (volatile bool on = true; kind == "loop" && on;) {
  }
}

class FaultyGroup final : public group::ForwardingGroup {
 public:
  FaultyGroup(group::Group& inner, const group::Notes& notes)
      : ForwardingGroup(inner), notes_(notes), count_(std::make_shared<Count>()) {
    mine_ = inner.rank() == count_->fault.rank;
  }
  FaultyGroup(std::unique_ptr<group::Group> part, const FaultyGroup& whole)
      : ForwardingGroup(*part),
        notes_(whole.notes_),
        mine_(whole.mine_),
        count_(whole.count_),
        owned_(std::move(part)) {}

  std::int64_t least(std::int64_t value) override {
    disturb();
    return inner().least(value);
  }
  void share(Bytes own, MutableBytes all) override {
    disturb();
    inner().share(own, all);
  }
  void broadcast(MutableBytes bytes, int root) override {
    disturb();
    inner().broadcast(bytes, root);
  }
  void all_to_all(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    disturb();
    inner().all_to_all(received, sent, block_bytes);
    damage(received, block_bytes * size());
  }
  void all_to_others(std::uint8_t* received, std::uint8_t* sent,
                     std::int64_t block_bytes) override {
    disturb();
    inner().all_to_others(received, sent, block_bytes);
    // A block that another rank sent: the own one never travels.
    const int from = rank() == 0 ? 1 : 0;
    damage(received + from * block_bytes, block_bytes);
  }
  void all_gather(std::uint8_t* received, const std::uint8_t* sent,
                  std::int64_t block_bytes) override {
    disturb();
    inner().all_gather(received, sent, block_bytes);
    damage(received, block_bytes * size());
  }
  std::unique_ptr<group::Group> split(int color) override {
    disturb();
    return std::make_unique<FaultyGroup>(inner().split(color), *this);
  }

 private:
  bool here() const { return mine_ && notes_.standing().phase == count_->fault.phase; }

  // Damages what the reshard moves, so that it is found, and then never ends in the probe.
  bool hangs_after_damage() const {
    return count_->fault.kind == "hang-after-damage" && mine_ && notes_.standing().phase == "probe";
  }

  void disturb() {
    if (hangs_after_damage()) act("loop");
    if (!here() || ++count_->calls != count_->fault.call) return;
    if (count_->fault.kind == "work") work([&] { inner().moved(); });
    if (count_->fault.kind == "write") work(write_much);
    act(count_->fault.kind);
  }

  /// Longer than the others may stand still, and a step now and then.
  template <typename Step>
  static void work(Step step) {
    for (int i = 0; i < 12; ++i) {
      ::usleep(500000);
      step();
    }
  }

  static void write_much() {
    std::ofstream("/dev/null").write(std::string(64 << 20, 'x').data(), 64 << 20);
  }

  void damage(std::uint8_t* received, std::int64_t bytes) {
    if (!here() || count_->spent || bytes == 0 || count_->calls < count_->fault.call) return;
    count_->spent = true;
    const bool flips = count_->fault.kind == "corrupt" || count_->fault.kind == "hang-after-damage";
    if (flips) received[bytes / 3] ^= 0x10;
    if (count_->fault.kind == "truncate") std::memset(received + bytes / 2, 0, bytes - bytes / 2);
  }

  const group::Notes& notes_;
  bool mine_ = false;
  std::shared_ptr<Count> count_;
  std::unique_ptr<group::Group> owned_;
};

}  // namespace

int main(int argc, char** argv) {
  const engine::Lookup engines = engine::built_in;
  const properties::Subject subject;
  const app::Decorate decorate = [](group::Group& inner, const group::Notes& notes) {
    return std::unique_ptr<group::Group>(std::make_unique<FaultyGroup>(inner, notes));
  };
  return app::run(argc, argv, {engines, subject, decorate});
}
