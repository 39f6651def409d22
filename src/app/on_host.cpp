#include "app/on_host.h"

namespace slicecheck::app {
namespace {

template <typename Experts>
Experts copied(const Experts& experts, memory::Space& space) {
  Experts made = experts;
  for (const layout::Kind kind : layout::kinds) {
    experts::tensor_of(made, kind) = on_host(experts::tensor_of(experts, kind), space);
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    experts::tensor_of(made, scalar) = on_host(experts::tensor_of(experts, scalar), space);
  }
  return made;
}

}  // namespace

Tensor on_host(const Tensor& tensor, memory::Space& space) {
  if (space.name() == "host") return tensor;
  Tensor made = host_tensor(tensor.dtype, tensor.extents);
  space.download(host_bytes(made), tensor.data.get());
  return made;
}

experts::StockExperts on_host(const experts::StockExperts& stock, memory::Space& space) {
  experts::StockExperts made = copied(stock, space);
  made.a1_gscale = on_host(stock.a1_gscale, space);
  made.a2_gscale = on_host(stock.a2_gscale, space);
  return made;
}

experts::TpExperts on_host(const experts::TpExperts& tp, memory::Space& space) {
  return copied(tp, space);
}

}  // namespace slicecheck::app
