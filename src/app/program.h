// The program: options, ranks, agreement, one command, one report, one exit code on every rank.
#pragma once

#include "engine/engine.h"

namespace slicecheck::app {

/// Runs a command line and returns the exit code of the contract. `engines` finds the engine that
/// --engine names.
int run(int argc, const char* const* argv, const engine::Lookup& engines);

}  // namespace slicecheck::app
