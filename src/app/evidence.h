// Evidence of what differs, brought together from the ranks that found it.
#pragma once

#include "group/group.h"
#include "verify/evidence.h"

namespace slicecheck::app {

/// The evidence of every rank of the group, joined; the same on each. Collective.
verify::Evidence gathered(group::Group& group, const verify::Evidence& mine);

}  // namespace slicecheck::app
