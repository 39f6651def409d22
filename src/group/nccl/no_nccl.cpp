#include "base/must.h"
#include "group/agree.h"
#include "group/nccl/nccl_group.h"

namespace slicecheck::group {

int nccl_version() { return 0; }

std::unique_ptr<Group> nccl_group(Group& control, const NcclOptions&) {
  refuse_together(control, Reason("this build has no NCCL", "no-device"),
                  "cannot use the NCCL transport");
  return nullptr;
}

memory::DeviceSpace& device_space_of(Group&) { bug("a group of NCCL in a build without it"); }

}  // namespace slicecheck::group
