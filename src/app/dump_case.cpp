#include "app/dump_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "app/source.h"
#include "checkpoint/dump.h"
#include "checkpoint/in_quotes.h"

namespace slicecheck::app {
namespace {

Reason wrong_manifest(const DumpCase& dump, const std::string& text) {
  return Reason(fmt::format("{}: {}", checkpoint::shown(dump.folder + "/manifest.json"), text));
}

/// A refusal's sentence with the dump that it is of.
Reason of_dump(const DumpCase& dump, const Reason& reason) {
  Where where = reason.where();
  where.layer = dump.layer;
  return Reason(fmt::format("{}: {}", checkpoint::shown(dump.folder), reason.text()),
                reason.cause(), where);
}

/// The number of --layer, or the manifest's where there is none.
Result<std::int64_t> layer_of(const Options& options, const DumpCase& dump) {
  const std::string& text = options.experts.layer;
  if (text.empty()) {
    if (dump.manifest.layer) return *dump.manifest.layer;
    return wrong_manifest(dump, "layer: is missing, and --layer is not given");
  }
  std::int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stop != end || number < 0) {
    return Reason(fmt::format("--layer {} is not one layer's number", text));
  }
  return number;
}

Reason unlike(const DumpCase& dump, const checkpoint::Layer& layer) {
  const checkpoint::Manifest& manifest = dump.manifest;
  if (manifest.payload) return wrong_manifest(dump, "payload: contradicts --checkpoint");
  if (layer.experts() != manifest.shape.experts) {
    return wrong_manifest(dump, fmt::format("experts: is {}, the checkpoint's layer has {}",
                                            manifest.shape.experts, layer.experts()));
  }
  if (layer.widths() == manifest.plain) return {};
  return wrong_manifest(
      dump, fmt::format("hidden and intermediate before padding: are {} and {}, the checkpoint's "
                        "layer has {} and {}",
                        manifest.plain.hidden, manifest.plain.intermediate, layer.widths().hidden,
                        layer.widths().intermediate));
}

Reason take_checkpoint(const Options& options, DumpCase& dump) {
  const Result<std::int64_t> number = layer_of(options, dump);
  if (number.reason) return number.reason;
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::open(options.experts.checkpoint);
  if (opened.reason) return opened.reason;
  Result<checkpoint::Layer> layer = opened->layer(*number);
  if (layer.reason) return layer.reason;
  Reason reason = unlike(dump, *layer);
  if (reason) return reason;
  dump.layer = *number;
  dump.checkpoint = std::make_shared<const checkpoint::Layer>(std::move(*layer));
  return {};
}

Result<DumpCase> dump_case(const Options& options, std::size_t position) {
  DumpCase made;
  made.folder = options.paths[position];
  Result<checkpoint::Manifest> manifest = checkpoint::read_manifest(made.folder);
  if (manifest.reason) return manifest.reason;
  made.manifest = std::move(*manifest);
  made.layer = made.manifest.layer.value_or(static_cast<std::int64_t>(position));
  Reason reason = layout::unsupported(made.manifest.shape);
  if (!reason) reason = unshared(made.manifest.shape);
  if (reason) return of_dump(made, reason);
  const Result<checkpoint::DumpParts> parts = checkpoint::dump_parts(made.folder, made.manifest);
  if (parts.reason) return parts.reason;
  made.parts = *parts;
  if (!parts->stock && !parts->tp && !parts->probe) {
    return Reason(fmt::format("{}: holds neither stock nor tp nor probe files",
                              checkpoint::shown(made.folder)));
  }
  if (!options.experts.checkpoint.empty()) reason = take_checkpoint(options, made);
  if (reason) return reason;
  if (parts->tp && !parts->stock && !made.has_reference()) {
    return wrong_manifest(made,
                          "payload: is missing, and neither stock files nor --checkpoint say what "
                          "the tp experts must be");
  }
  return made;
}

}  // namespace

std::optional<layout::Payload> DumpCase::payload() const {
  if (!manifest.payload) return {};
  layout::Payload made = *manifest.payload;
  made.seed = layout::layer_seed(made.seed, static_cast<std::uint64_t>(manifest.layer.value_or(0)));
  return made;
}

verify::Case DumpCase::shape() const {
  verify::Case made{manifest.shape, {}};
  if (manifest.plain != layout::stock_widths(manifest.shape)) made.data = manifest.plain;
  return made;
}

std::vector<int> DumpCase::ranks_of(std::int64_t group) const {
  std::vector<int> made(static_cast<std::size_t>(manifest.shape.tp));
  for (std::size_t rank = 0; rank < manifest.ranks.size(); ++rank) {
    const checkpoint::GroupRank& at = manifest.ranks[rank];
    if (at.group == group) made.at(at.rank) = static_cast<int>(rank);
  }
  return made;
}

Result<std::vector<DumpCase>> dump_cases(const Options& options) {
  std::vector<DumpCase> made;
  for (std::size_t position = 0; position < options.paths.size(); ++position) {
    Result<DumpCase> one = dump_case(options, position);
    if (one.reason) return one.reason;
    for (const DumpCase& before : made) {
      if (before.layer == one->layer) one->first_group += before.groups();
    }
    made.push_back(std::move(*one));
  }
  return made;
}

Result<std::optional<verify::DueScalars>> due_scalars(const DumpCase& dump) {
  const std::int64_t experts = dump.manifest.shape.experts;
  verify::DueScalars made;
  if (dump.checkpoint != nullptr) {
    Result<experts::Scalars> values = dump.checkpoint->scalars(0, experts);
    if (values.reason) return values.reason;
    made.values = std::move(*values);
    made.exact = false;
    made.up_by_gate = up_by_gate(*dump.checkpoint);
    return std::optional<verify::DueScalars>(std::move(made));
  }
  const std::optional<layout::Payload> payload = dump.payload();
  if (!payload) return std::optional<verify::DueScalars>();
  made.values = experts::payload_scalars(payload->seed, 0, experts, dump.manifest.plain);
  return std::optional<verify::DueScalars>(std::move(made));
}

}  // namespace slicecheck::app
