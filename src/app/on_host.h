// Experts where the host can read them: themselves where they lie there, copies from a device.
#pragma once

#include "experts/experts.h"
#include "memory/space.h"

namespace slicecheck::app {

Tensor on_host(const Tensor& tensor, memory::Space& space);
experts::StockExperts on_host(const experts::StockExperts& stock, memory::Space& space);
experts::TpExperts on_host(const experts::TpExperts& tp, memory::Space& space);

}  // namespace slicecheck::app
