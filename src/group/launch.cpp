#include "group/launch.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

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
    Mark{"PMI_SIZE", "PMI", "PMI_RANK"}, Mark{"SLURM_STEP_NUM_TASKS", "Slurm", "SLURM_PROCID"}};

// What a launcher's option leaves in the environment, and the values with which nothing is amiss.
struct Setting {
  const char* variable;
  std::array<std::string_view, 2> harmless;
};

constexpr std::array<Setting, 3> settings{
    Setting{"OMPI_MCA_orte_enable_recovery", {"0", "false"}},
    Setting{"OMPI_MCA_orte_max_restarts", {"0", ""}},
    Setting{"OMPI_MCA_orte_abort_on_non_zero_status", {"1", "true"}}};

std::string set_to_forgive() {
  for (const Setting& setting : settings) {
    const char* value = std::getenv(setting.variable);
    if (value == nullptr) continue;
    if (value == setting.harmless[0] || value == setting.harmless[1]) continue;
    return std::string(setting.variable) + "=" + value;
  }
  return {};
}

// This one leaves nothing in the environment; on the launcher's own host its command line has it.
std::string asked_to_forgive() {
  if (!launch() || launch()->by != marks[0].by) return {};
  std::ifstream file("/proc/" + std::to_string(::getppid()) + "/cmdline");
  for (std::string word; std::getline(file, word, '\0');) {
    if (word == "--continuous" || word == "-continuous") return word;
  }
  return {};
}

// Open MPI says both; where others say neither, their ranks find each other when they meet.
std::string name_here(const std::string& ranks) {
  const char* here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const char* name = std::getenv("PMIX_NAMESPACE");
  return here == nullptr || name == nullptr || here != ranks ? std::string() : name;
}

}  // namespace

std::optional<Launch> launch() {
  for (const Mark& mark : marks) {
    const char* ranks = std::getenv(mark.variable);
    if (ranks == nullptr) continue;
    const char* rank = std::getenv(mark.rank);
    return Launch{mark.by, std::atoi(ranks), rank == nullptr ? 0 : std::atoi(rank),
                  name_here(ranks)};
  }
  return {};
}

Reason alone(int world_size) {
  const std::optional<Launch> of = launch();
  if (!of || of->ranks <= 1 || world_size != 1) return {};
  return Reason("this process is a world of one, though " + of->by + " has started " +
                    std::to_string(of->ranks) + " ranks: a launcher of another MPI",
                "world-of-one");
}

Reason forgiving() {
  std::string told = set_to_forgive();
  if (told.empty()) told = asked_to_forgive();
  if (told.empty()) return {};
  return Reason("the launcher forgives lost ranks (" + told + ") and returns 0 whatever they say");
}

}  // namespace slicecheck::group
