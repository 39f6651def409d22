#include "app/dump_mutants.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "app/dump_judge.h"
#include "app/verdicts.h"
#include "base/must.h"
#include "checkpoint/dump.h"
#include "checkpoint/temporary_folder.h"
#include "experts/payload.h"
#include "group/agree.h"
#include "group/local/local_group.h"

namespace slicecheck::app {
namespace {

using experts::Scalar;
using layout::Kind;

constexpr layout::Shape shape{6, 128, 192, 3};
constexpr layout::Payload payload{layout::PayloadKind::numeric, 1, 0};
constexpr int rank = 1;  // whose files are changed

Tensor zeros(Dtype dtype, const Extents& extents) {
  Tensor made = host_tensor(dtype, extents);
  const MutableBytes bytes = host_bytes(made);
  std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
  return made;
}

class Catalogue {
 public:
  std::vector<DumpMutant> made() {
    for (const report::Side side : {report::Side::stock, report::Side::tp}) {
      for (const Kind kind : {Kind::w13_sf, Kind::w2_sf}) {
        add_missing(side, layout::name(kind));
        add_of_others(side, layout::name(kind),
                      [side, kind](DumpedGroup& group) { replace_by_others(side, group, kind); });
      }
      for (const Scalar scalar : experts::all_scalars) {
        add_missing(side, experts::name(scalar));
        add_of_others(side, experts::name(scalar), [side, scalar](DumpedGroup& group) {
          replace_by_others(side, group, scalar);
        });
      }
    }
    add_missing(report::Side::stock, "a1_gscale");
    add_missing(report::Side::stock, "a2_gscale");
    for (const Kind kind : layout::kinds) add_uncut(kind);
    return std::move(made_);
  }

 private:
  DumpMutant& add(std::string_view fault, report::Side side, std::string_view tensor) {
    DumpMutant mutant;
    mutant.fault = fault;
    mutant.pattern = fmt::format("dump, {} of {}", tensor, report::name(side));
    mutant.due.cause = fault;
    mutant.due.side = side;
    mutant.due.tensors = {std::string(tensor)};
    mutant.due.ranks = {rank};
    made_.push_back(std::move(mutant));
    return made_.back();
  }

  void add_missing(report::Side side, std::string_view tensor) {
    add("scale-missing", side, tensor).removed = tensor;
  }

  void add_of_others(report::Side side, std::string_view tensor,
                     std::function<void(DumpedGroup&)> change) {
    add("scale-extent-mismatch", side, tensor).change = std::move(change);
  }

  // Scales of all experts where a rank's own are due, and the reverse.
  template <typename Name>
  static void replace_by_others(report::Side side, DumpedGroup& group, Name name) {
    const bool stock = side == report::Side::stock;
    Tensor& tensor = stock ? experts::tensor_of(group.stocks[rank], name)
                           : experts::tensor_of(group.tps[rank], name);
    Extents extents = tensor.extents;
    extents[0] = stock ? shape.experts : shape.experts_per_rank();
    tensor = zeros(tensor.dtype, extents);
  }

  void add_uncut(Kind kind) {
    add("wrong-axis-cut", report::Side::tp, layout::name(kind)).change =
        [kind](DumpedGroup& group) {
          Extents extents = experts::stock_extents(kind, shape);
          extents[0] = shape.experts;
          Tensor& tensor = experts::tensor_of(group.tps[rank], kind);
          tensor = zeros(tensor.dtype, extents);
        };
    made_.back().pattern += ", not cut";
  }

  std::vector<DumpMutant> made_;
};

// Another name, of the same length: no tensor of this name is in the file.
void remove(const std::string& path, const std::string& name) {
  std::stringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  std::string text = read.str();
  const std::size_t at = text.find(fmt::format("\"{}\"", name));
  must(at != std::string::npos, "a dump lacks the tensor that is to be removed");
  text[at + name.size()] = '?';
  std::ofstream(path, std::ios::binary) << text;
}

Reason write(const std::string& folder, const DumpedGroup& group) {
  checkpoint::Manifest manifest;
  manifest.world = shape.tp;
  manifest.shape = shape;
  manifest.engine = "mutants 1";
  manifest.payload = payload;
  manifest.plain = layout::stock_widths(shape);
  manifest.ranks = checkpoint::consecutive_groups(shape.tp, shape.tp);
  Reason reason = checkpoint::write_manifest(folder, manifest);
  for (std::int64_t r = 0; r < shape.tp && !reason; ++r) {
    reason = checkpoint::write_stock(folder, r, group.stocks[r]);
    if (!reason) reason = checkpoint::write_tp(folder, r, group.tps[r]);
  }
  return reason;
}

// What `verify` says of the dump: its findings, or those of a refusal.
report::Report judged(const std::string& folder, group::Group& alone) {
  group::Notes notes;
  Progress progress(false, notes);
  Options options;
  options.paths = {folder};
  try {
    const std::vector<DumpCase> dumps = group::agreed(alone, dump_cases(options), "cannot verify");
    const Share share = shares_of(dumps, 0, 1).front();
    SharePart part =
        group::agreed(alone, judged_share(dumps.front(), share, progress), "cannot verify");
    const auto due = group::agreed(alone, due_scalars(dumps.front()), "cannot verify");
    report::append(part.report, judged_group(dumps.front(), 0, part.evidence, due));
    return std::move(part.report);
  } catch (const group::Refusal& refusal) {
    return refused(refusal, {0, 0, 0, 1});
  }
}

}  // namespace

std::vector<DumpMutant> dump_mutants() { return Catalogue().made(); }

std::vector<report::Finding> said_of(const DumpMutant& mutant) {
  DumpedGroup dumped;
  for (std::int64_t r = 0; r < shape.tp; ++r) {
    dumped.stocks.push_back(experts::payload_stock(payload, shape, r));
    dumped.tps.push_back(experts::payload_tp(payload, shape, r));
  }
  if (mutant.change) mutant.change(dumped);
  const checkpoint::TemporaryFolder folder;
  must(!folder.reason(), "no folder for a mutant's dump");
  const Reason unwritten = write(folder.path(), dumped);
  must(!unwritten, "a mutant's dump cannot be written");
  if (!mutant.removed.empty()) {
    const bool stock = mutant.due.side == report::Side::stock;
    remove(stock ? checkpoint::stock_path(folder.path(), rank)
                 : checkpoint::tp_path(folder.path(), rank),
           mutant.removed);
  }
  report::Report said;
  group::run_local({1, {}}, [&](group::Group& alone) { said = judged(folder.path(), alone); });
  return said.findings;
}

}  // namespace slicecheck::app
