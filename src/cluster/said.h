// What a check of a fresh cluster says: how much it looked at, and what is wrong, each with the
// ranks that it is about. Causes are the names of the catalogue of faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slicecheck::cluster {

struct Fault {
  std::string cause;
  std::vector<int> ranks;
  std::string text;      // one sentence with the numbers
  bool warning = false;  // it slows a run, and does not stop it
};

struct Said {
  std::string id;
  std::int64_t compared = 0;  // items, or bytes
  std::int64_t differing = 0;
  std::string text;
  std::vector<Fault> faults;
  std::string skipped;  // why nothing was looked at; else empty
};

}  // namespace slicecheck::cluster
