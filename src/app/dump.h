// A run's stock and tp experts as a dump folder: rank 0 claims the folder and writes the manifest,
// each rank writes its own files.
#pragma once

#include "app/source.h"

namespace slicecheck::app {

/// The dump of --dump; does nothing where none is asked for.
class Dump {
 public:
  Dump(const Context& context, const Source& source) : context_(context), source_(source) {}

  /// Refuses together when the folder holds something or cannot be made. Collective over the world.
  void claim() const;

  /// Writes this rank's files, and the manifest on rank 0; a reason where one cannot be written (a
  /// full disk), for this rank alone.
  Reason write(const experts::StockExperts& stock, const experts::TpExperts& tp) const;

 private:
  const Context& context_;
  const Source& source_;
};

}  // namespace slicecheck::app
