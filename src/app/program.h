// The program: options, ranks, agreement, one command, one report, one exit code on every rank.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"
#include "group/watch/notes.h"

namespace slicecheck::properties {
struct Subject;
}  // namespace slicecheck::properties

namespace slicecheck::app {

/// What stands between the program and its ranks: a group made around the one that carries them.
/// The notes say where the rank is. For tests that disturb a run.
using Decorate =
    std::function<std::unique_ptr<group::Group>(group::Group& inner, const group::Notes& notes)>;

/// What a program is made with: `engines` finds the engine that --engine names, `subject` is what
/// the laws are about, `decorate` (or nothing) disturbs the ranks.
struct Parts {
  const engine::Lookup& engines;
  const properties::Subject& subject;
  Decorate decorate = {};
};

/// Runs a command line and returns the exit code of the contract.
int run(int argc, const char* const* argv, const Parts& parts);

}  // namespace slicecheck::app
