#include "app/world.h"
#include "group/mpi/mpi_group.h"

namespace slicecheck::app {

Result<int> run_over_mpi(const RankMain& body) {
  const group::Session session;
  const std::unique_ptr<group::Group> world = session.world();
  const group::HostPlace place = session.host_place();
  return body(*world, {session.host(), session.version(), place.rank, place.size});
}

}  // namespace slicecheck::app
