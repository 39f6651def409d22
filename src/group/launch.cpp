#include "group/launch.h"

#include <array>
#include <cstdlib>

namespace slicecheck::group {
namespace {

struct Mark {
  const char* variable;
  const char* by;
  const char* rank;
};

// A batch script without srun has SLURM_NTASKS too, but no step.
constexpr std::array<Mark, 3> marks{
    Mark{"OMPI_COMM_WORLD_SIZE", "Open MPI", "OMPI_COMM_WORLD_RANK"},
    Mark{"PMI_SIZE", "PMI", "PMI_RANK"},
    Mark{"SLURM_STEP_NUM_TASKS", "Slurm", "SLURM_PROCID"}};

}  // namespace

std::optional<Launch> launch() {
  for (const Mark& mark : marks) {
    const char* ranks = std::getenv(mark.variable);
    if (ranks == nullptr) continue;
    const char* rank = std::getenv(mark.rank);
    return Launch{mark.by, std::atoi(ranks), rank == nullptr ? 0 : std::atoi(rank)};
  }
  return {};
}

}  // namespace slicecheck::group
