// The laws of what lies in files: a checkpoint's stock, and a dump that is judged.
#include <fmt/format.h>

#include <algorithm>

#include "base/must.h"
#include "checkpoint/temporary_folder.h"
#include "properties/checkpoint/writer.h"
#include "properties/law.h"

namespace slicecheck::properties {
namespace {

Reason different(std::string_view name, const Tensor& got, const Tensor& due) {
  if (got.extents != due.extents || got.data == nullptr) {
    return Reason(fmt::format("{} is {}, expected {}", name, text(got), text(due)));
  }
  const Bytes mine = host_bytes(got);
  const auto at = std::mismatch(mine.begin(), mine.end(), host_bytes(due).begin());
  if (at.first == mine.end()) return {};
  return Reason(fmt::format("{} has {:02x} at byte {}, expected {:02x}", name, *at.first,
                            at.first - mine.begin(), *at.second));
}

Reason different(const experts::StockExperts& got, const experts::StockExperts& due) {
  Reason reason;
  for (const layout::Kind kind : layout::kinds) {
    if (!reason) reason = different(layout::name(kind), tensor_of(got, kind), tensor_of(due, kind));
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    if (!reason) {
      reason = different(experts::name(scalar), tensor_of(got, scalar), tensor_of(due, scalar));
    }
  }
  if (!reason) reason = different("a1_gscale", got.a1_gscale, due.a1_gscale);
  if (!reason) reason = different("a2_gscale", got.a2_gscale, due.a2_gscale);
  if (reason || got.first_expert == due.first_expert) return reason;
  return Reason(
      fmt::format("the first expert is {}, expected {}", got.first_expert, due.first_expert));
}

// The payload's bytes, whatever file they come from, and the scalars of the case's scales.
experts::StockExperts due_stock(const Case& given, std::int64_t rank) {
  const std::int64_t held = given.shape.experts_per_rank();
  experts::StockExperts made = experts::payload_stock(given.payload, given.shape, rank);
  const experts::Scalars scalars = due_scalars(checkpoint_scales(given), rank * held, held);
  for (const experts::Scalar scalar : experts::all_scalars) {
    tensor_of(made, scalar) = host_floats(values_of(scalars, scalar));
  }
  made.a1_gscale = host_floats({scalars.a1_gscale});
  made.a2_gscale = host_floats({scalars.a2_gscale});
  return made;
}

Reason any_format_gives_the_same_stock(const Case& given, const Subject& subject) {
  must(subject.loaded != nullptr, "nothing that loads a checkpoint");
  const checkpoint::TemporaryFolder folder;
  Reason reason = folder.reason();
  if (!reason) reason = write_checkpoint(folder.path(), given);
  for (int rank = 0; rank < given.shape.tp && !reason; ++rank) {
    const Result<experts::StockExperts> got = subject.loaded(
        {folder.path(), layer_number(given)}, static_cast<int>(given.shape.tp), rank);
    reason = got.reason;
    if (!reason) reason = different(*got, due_stock(given, rank));
    if (reason) reason = Reason(fmt::format("rank {}: {}", rank, reason.text()));
  }
  return reason;
}

// What `reshard --dump` writes of a case.
Reason write_dump(const std::string& folder, const Case& given, const Subject& subject) {
  checkpoint::Manifest manifest;
  manifest.world = given.shape.tp;
  manifest.shape = given.shape;
  manifest.engine = "laws";
  // Of every second case the dump says its payload; of the others the stock alone says what is due.
  if (given.payload.seed % 2 == 0) manifest.payload = given.payload;
  manifest.plain = layout::stock_widths(given.shape);
  manifest.ranks = checkpoint::consecutive_groups(manifest.world, given.shape.tp);
  Reason reason = checkpoint::write_manifest(folder, manifest);
  for (std::int64_t rank = 0; rank < given.shape.tp && !reason; ++rank) {
    reason = checkpoint::write_stock(folder, rank,
                                     experts::payload_stock(given.payload, given.shape, rank));
    if (reason) break;
    reason = subject.write_tp(folder, rank, experts::payload_tp(given.payload, given.shape, rank));
  }
  return reason;
}

// A stock that nothing is known of has block scales that are judged: numbers, not any bytes.
Case with_numbers_where_judged(const Case& given) {
  Case made = given;
  const bool unknown = given.payload.seed % 2 != 0;
  if (unknown && given.payload.kind == layout::PayloadKind::bytes) {
    made.payload.kind = layout::PayloadKind::numeric;
  }
  return made;
}

Reason a_dump_verifies(const Case& given, const Subject& subject) {
  must(subject.verified != nullptr, "nothing that verifies a dump");
  const checkpoint::TemporaryFolder folder;
  Reason reason = folder.reason();
  if (!reason) reason = write_dump(folder.path(), with_numbers_where_judged(given), subject);
  if (reason) return reason;
  const Result<report::Report> said = subject.verified(folder.path());
  if (said.reason) return said.reason;
  for (const report::Finding& each : said->findings) {
    // The few block scales of a small tensor are saturated by chance: a true warning.
    if (each.cause == "block-scale-saturated") continue;
    return Reason(fmt::format("{} is found: {}", each.cause, each.text));
  }
  if (said->verdict == report::Verdict::passed) return {};
  return Reason(fmt::format("the verdict is {}", report::name(said->verdict)));
}

}  // namespace

std::vector<Law> file_laws() {
  using enum Dimension;
  const std::vector<Dimension> all{tp, hidden_tiles, slice_tiles, experts_per_rank, payload};
  return {
      {"Checkpoint.any_format_gives_the_same_stock",
       Draw::checkpoint,
       {tp, hidden_tiles, slice_tiles, experts_per_rank, payload, format},
       any_format_gives_the_same_stock},
      {"Dump.what_was_resharded_verifies", Draw::valid, all, a_dump_verifies},
  };
}

}  // namespace slicecheck::properties
