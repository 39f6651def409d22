// What a thread is in the middle of, told by another thread while the first is stuck. The stuck
// thread only writes down return addresses, in a signal handler; they are named afterwards, on a
// thread of their own, so that nothing it holds can keep the asker waiting. Built without
// backward-cpp, the same functions know of no stack.
#pragma once

#include <chrono>
#include <string>

namespace slicecheck::group {

/// The number of the calling thread, for stack_of().
int own_thread();

/// Loads what taking a stack needs, so that no handler has to.
void prepare_stacks();

/// The functions that this thread of the process is in, the innermost first: "a < b < c"; or
/// nothing, where they cannot be had within `limit`.
std::string stack_of(int thread, std::chrono::milliseconds limit);

}  // namespace slicecheck::group
