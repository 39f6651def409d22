#include "app/world.h"

#include <unistd.h>

#include <array>

#include "group/local/local_group.h"

namespace slicecheck::app {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

int run_local_ranks(int ranks, const RankMain& body) {
  int code = 0;
  group::run_local({ranks, {}}, [&](group::Group& world) {
    const int mine = body(world, {host_name(), "", world.rank(), world.size()});
    if (world.rank() == 0) code = mine;
  });
  return code;
}

}  // namespace slicecheck::app
