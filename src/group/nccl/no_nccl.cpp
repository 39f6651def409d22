#include "group/agree.h"
#include "group/nccl/nccl_group.h"

namespace slicecheck::group {

int nccl_version() { return 0; }

std::unique_ptr<Group> nccl_group(Group& control, const NcclOptions&) {
  refuse_together(control, Reason("this build has no NCCL", "no-device"),
                  "cannot use the NCCL transport");
  return nullptr;
}

}  // namespace slicecheck::group
