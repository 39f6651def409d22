// The kill matrix: what the checks say of every planted fault, and that they say nothing of healthy
// layers. Runs in one process; ranks take every n-th mutant.
#pragma once

#include "app/options.h"
#include "faults/mutants.h"
#include "report/report.h"

namespace slicecheck::app {

/// One row: how many mutants of a fault were planted, how many of these were caught by bytes or
/// scalars (something was said), by the random and by the exact probe alone, named (the cause and
/// side are among what was said) and named exactly (tensors, experts and ranks too, and nothing
/// beside).
struct KillRow {
  std::string fault;
  std::int64_t planted = 0;
  std::int64_t caught = 0;
  std::int64_t random_probe = 0;
  std::int64_t exact_probe = 0;
  std::int64_t named = 0;
  std::int64_t exact = 0;
};

/// What was judged; `misnamed` tells of the first few that were not named exactly.
struct KillMatrix {
  std::vector<KillRow> rows;  // in the order of the catalogue
  std::int64_t healthy = 0;   // random layouts judged
  std::int64_t alarms = 0;    // of these that were called something
  std::vector<std::string> misnamed;
};

/// The share of rank `rank` of `size`. `step` is called after each mutant or healthy layout with
/// the number done and due.
KillMatrix kill_matrix(Level level, std::uint64_t seed, std::int64_t rank, std::int64_t size,
                       const std::function<void(std::int64_t, std::int64_t)>& step);

/// The matrix as text, and back, to be shared over ranks; and the sum of two.
std::string text_of(const KillMatrix& matrix);
KillMatrix matrix_of(std::string_view text);
void add(KillMatrix& matrix, const KillMatrix& other);

}  // namespace slicecheck::app
