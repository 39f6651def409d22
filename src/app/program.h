// The program: options, ranks, agreement, one command, one report, one exit code on every rank.
#pragma once

#include "engine/engine.h"

namespace slicecheck::properties {
struct Subject;
}  // namespace slicecheck::properties

namespace slicecheck::app {

/// What a program is made with: `engines` finds the engine that --engine names, `subject` is what
/// the laws are about.
struct Parts {
  const engine::Lookup& engines;
  const properties::Subject& subject;
};

/// Runs a command line and returns the exit code of the contract.
int run(int argc, const char* const* argv, const Parts& parts);

}  // namespace slicecheck::app
