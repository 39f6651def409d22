#include "app/dump.h"

#include "app/on_host.h"
#include "checkpoint/dump.h"
#include "group/agree.h"

namespace slicecheck::app {
namespace {

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
  const int rank = context_.world.rank();
  Reason reason;
  if (rank == 0) {
    reason = checkpoint::write_manifest(folder, manifest_of(context_, source_));
  }
  if (!reason) reason = checkpoint::write_stock(folder, rank, on_host(stock, space));
  if (!reason) reason = checkpoint::write_tp(folder, rank, on_host(tp, space));
  return reason;
}

}  // namespace slicecheck::app
