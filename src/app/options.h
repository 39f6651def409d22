// What a command line asks for. Commands share their options; each command's own are in its record.
// A command line that cannot be read is a Reason, agreed by all ranks like any other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/reason.h"

namespace slicecheck::app {

enum class Transport { automatic, local, mpi, nccl };
enum class ProbeChoice { automatic, random, exact, both, none };
enum class Level { smoke, ci, full, soak };

/// Which experts a run is about. Zero: not given, the command's default.
struct ExpertOptions {
  std::string payload;  // bytes, numeric, exact; empty: bytes, then exact for the probe
  std::int64_t experts = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::string model;
  std::string checkpoint;
  std::string layer;  // one layer, or a range in audit
};

struct ProbeOptions {
  ProbeChoice choice = ProbeChoice::automatic;
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::optional<double> rel_l2_max;
};

/// How much of the laws is tried. Zero: what the level says.
struct PropertyOptions {
  std::int64_t cases = 0;
  double seconds = 0;
  std::string law;  // its name, or the suite of several; empty: all
  int ranks_up_to = 0;
};

struct Options {
  std::string command;
  std::vector<std::string> paths;  // dumps, a checkpoint, a case, reports
  std::string report = "slicecheck-report.json";
  std::uint64_t seed = 1;
  bool quiet = false;
  Level level = Level::ci;
  double timeout = 120;
  double deadline = 0;       // none
  bool side_channel = true;  // ranks talk beside the transport when it is stuck
  ExpertOptions experts;
  ProbeOptions probe;
  PropertyOptions properties;
  std::int64_t tp = 0;  // all ranks
  std::string engine = "collective";
  Transport transport = Transport::automatic;
  int ranks = 0;           // of transport local; 0: 4
  bool share_gpu = false;  // of transport nccl: several ranks on one GPU
  std::string dump;
  std::int64_t repeat = 0;  // rounds of a soak; 0: one run
  double seconds = 0;       // of a soak; 0: not by time
  std::string journals;     // report: merge what a dead run left here
  bool exit_code = false;   // report: end with the report's own code
  std::string text;         // what --help and --version print; nothing else is done then
};

/// The options of a command line.
/// Refuses when: it is none that the program knows; the reason says which option and why.
Result<Options> parsed(int argc, const char* const* argv);

}  // namespace slicecheck::app
