// Keeps the case that is running, so that a run that ends in the middle of it leaves it behind.
#pragma once

#include <string>

#include "app/command.h"
#include "properties/run/run.h"
#include "properties/run/watch.h"

namespace slicecheck::app {

/// Saves each case of ranks together before it runs (rank 0; not one that is replayed, which stays
/// where it is) and removes it when its law has ended. Ends the run when a case does not end within
/// --timeout; one that a rank tries alone is saved then, by that rank.
class CaseKeeper {
 public:
  explicit CaseKeeper(const Context& context);

  /// A case begins, or with nothing: the last one has ended.
  void operator()(const properties::SavedCase* saved);

  /// Saves a case that broke its law, and gives the line that runs it again. Rank 0 only.
  std::string keep(const properties::SavedCase& saved);

 private:
  std::string path_of(const properties::SavedCase& saved) const;
  std::string again(const properties::SavedCase& saved) const;
  void write(const properties::SavedCase& saved) const;
  bool together(const properties::SavedCase& saved);
  void late();

  const Context& context_;
  const bool saves_;
  std::string law_;        // of the last case
  bool together_ = false;  // it is one of ranks together
  std::mutex mutex_;
  std::optional<properties::SavedCase> running_;
  properties::Watch watch_;
};

}  // namespace slicecheck::app
