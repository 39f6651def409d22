#include "app/dump.h"

#include "checkpoint/dump.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

/// The tensor in host memory: itself on the host, a copy from a device.
Tensor on_host(const Tensor& tensor, memory::Space& space) {
  if (space.name() == "host") return tensor;
  Tensor made = host_tensor(tensor.dtype, tensor.extents);
  space.download(host_bytes(made), tensor.data.get());
  return made;
}

template <typename Experts>
Experts all_on_host(const Experts& experts, memory::Space& space) {
  Experts made = experts;
  for (const layout::Kind kind : layout::kinds) {
    experts::tensor_of(made, kind) = on_host(experts::tensor_of(experts, kind), space);
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    experts::tensor_of(made, scalar) = on_host(experts::tensor_of(experts, scalar), space);
  }
  return made;
}

checkpoint::Manifest manifest_of(const Context& context, const Source& source) {
  checkpoint::Manifest made;
  made.world = context.world.size();
  made.shape = source.shape;
  made.engine = context.options.engine;
  if (source.payload) {
    made.payload = source.payload;
  } else {
    made.layer = source.layer;
  }
  made.plain = layout::stock_widths(source.shape);
  made.ranks = checkpoint::consecutive_groups(made.world, source.shape.tp);
  return made;
}

}  // namespace

void Dump::claim() const {
  const std::string& folder = context_.options.dump;
  if (folder.empty()) return;
  Reason reason;
  if (context_.world.rank() == 0) reason = checkpoint::claim_dump(folder);
  group::refuse_together(context_.world, reason, "cannot dump");
}

Reason Dump::write(const experts::StockExperts& stock, const experts::TpExperts& tp) const {
  const std::string& folder = context_.options.dump;
  if (folder.empty()) return {};
  memory::Space& space = context_.group.space();
  experts::StockExperts held = all_on_host(stock, space);
  held.a1_gscale = on_host(stock.a1_gscale, space);
  held.a2_gscale = on_host(stock.a2_gscale, space);
  const int rank = context_.world.rank();
  Reason reason;
  if (rank == 0) {
    reason = checkpoint::write_manifest(folder, manifest_of(context_, source_));
  }
  if (!reason) reason = checkpoint::write_stock(folder, rank, held);
  if (!reason) reason = checkpoint::write_tp(folder, rank, all_on_host(tp, space));
  return reason;
}

}  // namespace slicecheck::app
