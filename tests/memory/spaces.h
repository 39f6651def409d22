// The spaces that a program's conformance suite runs over: each test program names its own.
#pragma once

#include <memory>

#include "memory/space.h"

namespace slicecheck::memory {

/// The space under test, or null where this machine has none (then nothing has run).
std::unique_ptr<Space> space_under_test();

}  // namespace slicecheck::memory
