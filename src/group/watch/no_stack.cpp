#include <unistd.h>

#include "group/watch/stack.h"

namespace slicecheck::group {

int own_thread() { return static_cast<int>(::gettid()); }

void prepare_stacks() {}

std::string stack_of(int, std::chrono::milliseconds) { return {}; }

}  // namespace slicecheck::group
