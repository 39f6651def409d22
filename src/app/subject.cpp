#include "app/subject.h"

#include "app/dump_judge.h"
#include "app/source.h"
#include "properties/law.h"

namespace slicecheck::app {
namespace {

/// `verify` of one folder by one process.
Result<report::Report> verified(const std::string& folder) {
  Options options;
  options.command = "verify";
  options.paths = {folder};
  const Result<std::vector<DumpCase>> dumps = dump_cases(options);
  if (dumps.reason) return dumps.reason;
  const DumpCase& dump = dumps->front();
  group::Notes notes;
  Progress progress(false, notes);
  report::Report made;
  for (const Share& share : shares_of(*dumps, 0, 1)) {
    Result<SharePart> part = judged_share(dump, share, progress);
    if (part.reason) return part.reason;
    const Result<std::optional<verify::DueScalars>> due = due_scalars(dump);
    if (due.reason) return due.reason;
    report::append(made, std::move(part->report));
    report::append(made, judged_group(dump, share.group, part->evidence, *due));
  }
  made.verdict = report::worst(made.verdict, report::verdict_of(made));
  return made;
}

/// A rank's stock as `reshard --checkpoint` makes it, in host memory.
Result<experts::StockExperts> loaded(const properties::CheckpointLayer& layer, int tp, int rank) {
  Options options;
  options.command = "reshard";
  options.experts.checkpoint = layer.folder;
  options.experts.layer = std::to_string(layer.layer);
  const Result<Source> source = source_of(options, tp);
  if (source.reason) return source.reason;
  const std::unique_ptr<memory::Space> space = memory::host_space();
  return stock_of(*source, rank, *space);
}

}  // namespace

properties::Subject with_commands(const properties::Subject& subject) {
  properties::Subject made = subject;
  if (made.verified == nullptr) made.verified = verified;
  if (made.loaded == nullptr) made.loaded = loaded;
  return made;
}

}  // namespace slicecheck::app
