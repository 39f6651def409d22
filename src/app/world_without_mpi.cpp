#include "app/world.h"

namespace slicecheck::app {

Result<int> run_over_mpi(const RankMain&) {
  return Reason("this program was built without MPI: use --transport local");
}

}  // namespace slicecheck::app
