#include "tests/memory/spaces.h"

namespace slicecheck::memory {

std::unique_ptr<Space> space_under_test() { return host_space(); }

}  // namespace slicecheck::memory
