#include "app/dump_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "app/probe_report.h"
#include "checkpoint/dump_files.h"
#include "checkpoint/in_quotes.h"
#include "checkpoint/safetensors.h"

namespace slicecheck::app {
namespace {

using checkpoint::Element;
using checkpoint::Manifest;
using checkpoint::Safetensors;
using checkpoint::TensorEntry;

// One rank's file: its rows, and the experts of the routes where it says them.
struct RankProbe {
  std::string file;
  reshard::ProbeRows rows;
  std::int64_t top_k = 1;  // of the maps' extents, where they are [T, K]
  std::vector<std::int32_t> experts;
};

Reason wrong(const Safetensors& file, std::string_view field, std::string_view why) {
  return Reason(fmt::format("{}: {}: {}", file.name(), field, why));
}

Result<Tensor> read_tensor(const Safetensors& file, const TensorEntry& entry, Dtype dtype) {
  Tensor made = host_tensor(dtype, entry.extents);
  Reason reason = file.read(entry, 0, host_bytes(made));
  if (reason) return reason;
  return made;
}

Result<Tensor> rows_in(const Safetensors& file, const std::string& name, std::int64_t hidden) {
  const TensorEntry* entry = file.find(name);
  if (entry == nullptr) return wrong(file, name, "is missing");
  if (entry->element != Element::bf16 || entry->extents.size() != 2 ||
      entry->extents[1] != hidden) {
    return wrong(file, name, fmt::format("is {}, expected BF16 [P, {}]", text(*entry), hidden));
  }
  return read_tensor(file, *entry, Dtype::bf16);
}

// The values of an I32 tensor [T, K] or [T K], and its extents.
struct Indices {
  std::vector<std::int32_t> values;
  Extents extents;
};

Result<Indices> indices_in(const Safetensors& file, const std::string& name,
                           const Manifest& manifest) {
  const TensorEntry* entry = file.find(name);
  if (entry == nullptr) return wrong(file, name, "is missing");
  const std::size_t axes = entry->extents.size();
  if (entry->element != Element::i32 || axes < 1 || axes > 2) {
    return wrong(file, name, fmt::format("is {}, expected I32 [T, K] or [T K]", text(*entry)));
  }
  const std::int64_t routes = count(entry->extents);
  if (manifest.tokens && manifest.top_k) {
    const bool as_told = axes == 1 ? routes == *manifest.tokens * *manifest.top_k
                                   : entry->extents == Extents{*manifest.tokens, *manifest.top_k};
    if (!as_told) {
      return wrong(file, name,
                   fmt::format("is {}, the manifest says {} tokens and top_k {}", text(*entry),
                               *manifest.tokens, *manifest.top_k));
    }
  }
  const Result<Tensor> tensor = read_tensor(file, *entry, Dtype::i32);
  if (tensor.reason) return tensor.reason;
  Indices made{std::vector<std::int32_t>(routes), entry->extents};
  std::copy_n(host_bytes(*tensor).begin(), 4 * routes,
              reinterpret_cast<std::uint8_t*>(made.values.data()));
  return made;
}

// Rows and their map, as one op gave them.
Result<moe::PermutedRows> permuted_in(const Safetensors& file, const std::string& side,
                                      const Manifest& manifest) {
  Result<Tensor> rows = rows_in(file, side + "_rows", manifest.shape.hidden);
  if (rows.reason) return rows.reason;
  Result<Indices> map = indices_in(file, side + "_permuted_idx", manifest);
  if (map.reason) return map.reason;
  moe::PermutedRows made{std::move(*rows), std::move(map->values)};
  Reason reason = moe::unreadable(made);
  if (reason) return wrong(file, side + "_permuted_idx", reason.text());
  return made;
}

// K: the manifest's, or the second extent of a [T, K] map.
std::int64_t top_k_of(const Safetensors& file, const Manifest& manifest) {
  if (manifest.top_k) return *manifest.top_k;
  for (const char* name : {"topk_ids", "ep_permuted_idx", "tp_permuted_idx"}) {
    const TensorEntry* entry = file.find(name);
    if (entry != nullptr && entry->extents.size() == 2) {
      return std::max<std::int64_t>(1, entry->extents[1]);
    }
  }
  return 1;
}

Reason unlike_topk(const Safetensors& file, const RankProbe& probe, const Manifest& manifest) {
  const auto routes = static_cast<std::int64_t>(probe.rows.ep.map.size());
  const moe::Routing routing{routes / probe.top_k, probe.top_k, probe.experts};
  const Reason reason = moe::unroutable(routing, manifest.shape.experts);
  if (reason) return wrong(file, "topk_ids", reason.text());
  return {};
}

Result<RankProbe> rank_probe(const std::string& folder, std::int64_t rank,
                             const Manifest& manifest) {
  const Result<Safetensors> file =
      checkpoint::open_part(folder, checkpoint::probe_path(folder, rank));
  if (file.reason) return file.reason;
  Result<moe::PermutedRows> ep = permuted_in(*file, "ep", manifest);
  if (ep.reason) return ep.reason;
  Result<moe::PermutedRows> tp = permuted_in(*file, "tp", manifest);
  if (tp.reason) return tp.reason;
  RankProbe made{file->name(), {std::move(*ep), std::move(*tp)}, top_k_of(*file, manifest), {}};
  const std::size_t routes = made.rows.ep.map.size();
  if (made.rows.tp.map.size() != routes) {
    return wrong(*file, "tp_permuted_idx",
                 fmt::format("has {} routes, ep_permuted_idx {}", made.rows.tp.map.size(), routes));
  }
  if (file->find("topk_ids") == nullptr) return made;
  Result<Indices> experts = indices_in(*file, "topk_ids", manifest);
  if (experts.reason) return experts.reason;
  if (experts->values.size() != routes) {
    return wrong(*file, "topk_ids",
                 fmt::format("has {} routes, ep_permuted_idx {}", experts->values.size(), routes));
  }
  made.experts = std::move(experts->values);
  Reason reason = unlike_topk(*file, made, manifest);
  if (reason) return reason;
  return made;
}

// The group's ranks by their number in it, as ranks of the launch.
std::vector<std::int64_t> launch_ranks(const Manifest& manifest, std::int64_t group) {
  std::vector<std::int64_t> made(manifest.shape.tp, 0);
  for (std::size_t r = 0; r < manifest.ranks.size(); ++r) {
    if (manifest.ranks[r].group == group) {
      made[manifest.ranks[r].rank] = static_cast<std::int64_t>(r);
    }
  }
  return made;
}

// All ranks' rows as those of one probe, and its routes.
struct GroupProbe {
  std::vector<reshard::ProbeRows> rows;
  moe::Routing routing;
};

Result<GroupProbe> group_probe(const DumpProbe& dump) {
  GroupProbe made;
  std::string first;  // the file that said the experts
  for (const std::int64_t rank : launch_ranks(dump.manifest, dump.group)) {
    Result<RankProbe> one = rank_probe(dump.folder, rank, dump.manifest);
    if (one.reason) return one.reason;
    if (!made.rows.empty() && one->rows.ep.map.size() != made.rows[0].ep.map.size()) {
      return Reason(fmt::format("{}: ep_permuted_idx: has {} routes, the group's first rank {}",
                                one->file, one->rows.ep.map.size(), made.rows[0].ep.map.size()));
    }
    if (made.routing.experts.empty()) {
      first = one->file;
      made.routing.experts = one->experts;
    } else if (!one->experts.empty() && one->experts != made.routing.experts) {
      return Reason(fmt::format("{}: topk_ids: differs from {}", one->file, first));
    }
    made.routing.top_k = std::max(made.routing.top_k, one->top_k);
    made.rows.push_back(std::move(one->rows));
  }
  Reason reason = reshard::unequal(made.rows);
  if (reason) return Reason(fmt::format("{}: {}", checkpoint::shown(dump.folder), reason.text()));
  const auto routes = static_cast<std::int64_t>(made.rows[0].ep.map.size());
  made.routing.tokens = routes / made.routing.top_k;
  if (made.routing.experts.empty() || made.routing.routes() == routes) return made;
  return Reason(
      fmt::format("{}: the ranks' files do not agree about K", checkpoint::shown(dump.folder)));
}

// Routes that one EP rank serves, but not the one that holds their expert: with linear placement
// that is known where the experts are.
void judge_holders(const GroupProbe& group, const std::vector<reshard::RouteNorms>& routes,
                   std::int64_t experts_per_rank, reshard::Judged& judged) {
  if (group.routing.experts.empty()) return;
  reshard::ProbeFault fault{"route-unserved", {}, {}, {}};
  std::set<int> holders;
  std::set<std::int64_t> experts;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const std::int64_t expert = group.routing.experts[i];
    const auto holder = static_cast<int>(expert / experts_per_rank);
    if (routes[i].ep_ranks != 1 || routes[i].ep_first == holder) continue;
    if (count++ == 0) {
      const auto at = static_cast<std::int64_t>(i);
      fault.text = fmt::format(
          "the first route (token {}, k {}) of expert {} by rank {} of the group, where rank {} "
          "holds it",
          at / group.routing.top_k, at % group.routing.top_k, expert, routes[i].ep_first, holder);
    }
    holders.insert(holder);
    experts.insert(expert);
    judged.served -= routes[i].tp_missing < 0 ? 1 : 0;
  }
  if (count == 0) return;
  fault.text = fmt::format(
      "an EP rank that does not hold the expert serves {} of {} routes in place of the "
      "one that does: {}",
      count, routes.size(), fault.text);
  fault.ranks.assign(holders.begin(), holders.end());
  fault.experts.assign(experts.begin(), experts.end());
  judged.route_faults.push_back(fault);
}

// A numeric check counts only beside a control; of another's kernel's rows there can be none.
report::Check uncontrolled(const reshard::Probed& probed, const DumpProbe& dump) {
  report::Check made;
  made.id = "control." + probed.kind;
  made.group = static_cast<int>(dump.first_group + dump.group);
  made.layer = dump.layer;
  made.status = report::Status::skipped;
  made.text =
      "no control: the rows are of a kernel that is not run here, so no damage can be planted "
      "before it";
  return made;
}

}  // namespace

Result<report::Report> dump_probe_report(const DumpProbe& dump,
                                         const std::optional<double>& rel_l2_max) {
  const Result<GroupProbe> group = group_probe(dump);
  if (group.reason) return group.reason;
  const std::optional<layout::Payload>& payload = dump.manifest.payload;
  const bool exact = payload && payload->kind == layout::PayloadKind::exact;
  reshard::Probed probed;
  probed.kind = exact ? "exact" : "random";
  probed.tokens = group->routing.tokens;
  probed.top_k = group->routing.top_k;
  const std::vector<reshard::RouteNorms> routes = reshard::route_norms(group->rows);
  probed.judged = reshard::judged(routes, group->routing, {false, rel_l2_max});
  judge_holders(*group, routes, dump.manifest.shape.experts_per_rank(), probed.judged);
  const std::vector<std::int64_t> ranks = launch_ranks(dump.manifest, dump.group);
  report::Report made =
      probe_report({probed}, {static_cast<int>(dump.first_group + dump.group),
                              std::vector<int>(ranks.begin(), ranks.end()), dump.layer});
  made.checks.push_back(uncontrolled(probed, dump));
  return made;
}

}  // namespace slicecheck::app
