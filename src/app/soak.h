// The same run again and again with fresh seeds: rare faults show, and memory that grows.
#pragma once

#include "app/command.h"

namespace slicecheck::app {

/// What all rounds found, as one report: the checks summed up, and how many rounds differed. Says
/// one line on stderr for a round that does not pass. --repeat rounds, or as many as begin within
/// --seconds; round i takes seed + i. Collective over context.world.
report::Report soak(Context& context, CommandBody body);

}  // namespace slicecheck::app
