#include "group/launch.h"

#include <array>
#include <cstdlib>

namespace slicecheck::group {
namespace {

struct Mark {
  const char* variable;
  const char* by;
};

// A batch script without srun has SLURM_NTASKS too, but no step.
constexpr std::array<Mark, 3> marks{Mark{"OMPI_COMM_WORLD_SIZE", "Open MPI"},
                                    Mark{"PMI_SIZE", "PMI"}, Mark{"SLURM_STEP_NUM_TASKS", "Slurm"}};

}  // namespace

std::optional<Launch> launch() {
  for (const Mark& mark : marks) {
    const char* ranks = std::getenv(mark.variable);
    if (ranks != nullptr) return Launch{mark.by, std::atoi(ranks)};
  }
  return {};
}

}  // namespace slicecheck::group
