#include "checkpoint/dump_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <filesystem>
#include <set>

#include "checkpoint/in_quotes.h"
#include "checkpoint/shards.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;
using layout::Kind;

// A file of a dump, and whose it is.
struct Part {
  const Safetensors& file;
  std::string_view side;
  std::int64_t rank = 0;
};

Reason wrong(const Part& part, std::string_view field, std::string_view why,
             std::string_view cause = {}) {
  return Reason(fmt::format("{}: {}: {}", part.file.name(), field, why), cause,
                {std::string(part.side), std::string(cause.empty() ? "" : field), part.rank});
}

// The whole number that the metadata holds under `key`; nothing where there is none.
Result<std::optional<std::int64_t>> number_in(const Part& part, const std::string& key) {
  const auto at = part.file.metadata().find(key);
  if (at == part.file.metadata().end()) return std::optional<std::int64_t>();
  std::int64_t value = 0;
  const char* end = at->second.data() + at->second.size();
  const auto [stop, failed] = std::from_chars(at->second.data(), end, value);
  if (failed == std::errc() && stop == end && value >= 0) {
    return std::optional<std::int64_t>(value);
  }
  return wrong(part, fmt::format("__metadata__: {}", key),
               fmt::format("is {}, expected a whole number", in_quotes(at->second)));
}

// What a tensor of a dump must be.
struct Due {
  std::string_view name;
  Element element = Element::u8;
  Extents extents;
};

Reason unlike(const Part& part, const TensorEntry& entry, const Due& due,
              std::string_view cause = {}) {
  return wrong(
      part, due.name,
      fmt::format("is {}, expected {} {}", text(entry), name(due.element), text(due.extents)),
      cause);
}

// Why a tensor is not there as it must be. Block scales have causes of their own.
Reason undue(const Part& part, const Due& due, const Extents& of_all_or_local) {
  const bool scale = due.element == Element::f32 || due.name.ends_with("_sf");
  const TensorEntry* entry = part.file.find(due.name);
  if (entry == nullptr) {
    return wrong(part, due.name, "is missing", scale ? "scale-missing" : "");
  }
  if (entry->element == due.element && entry->extents == due.extents) return {};
  const bool others = scale && entry->element == due.element && entry->extents == of_all_or_local;
  return unlike(part, *entry, due, others ? "scale-extent-mismatch" : "");
}

Result<std::vector<float>> floats_in(const Safetensors& file, std::string_view name) {
  const TensorEntry* entry = file.find(name);
  std::vector<float> values(static_cast<std::size_t>(entry->bytes) / sizeof(float));
  Reason reason = file.read(
      *entry, 0, {reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float)});
  if (reason) return reason;
  return values;
}

Result<DumpScalars> scalars_in(const Part& part, std::int64_t count, std::int64_t others) {
  DumpScalars made;
  for (const experts::Scalar scalar : experts::all_scalars) {
    Reason reason = undue(part, {experts::name(scalar), Element::f32, {count}}, {others});
    if (reason) return reason;
    Result<std::vector<float>> values = floats_in(part.file, experts::name(scalar));
    if (values.reason) return values.reason;
    made[static_cast<std::size_t>(scalar)] = std::move(*values);
  }
  return made;
}

// A gscale: F32 [1], or [Er] or [E] of equal bits.
Result<float> gscale_in(const Part& part, std::string_view name, const layout::Shape& shape) {
  const TensorEntry* entry = part.file.find(name);
  if (entry == nullptr) return wrong(part, name, "is missing", "scale-missing");
  const std::int64_t held = entry->extents.size() == 1 ? entry->extents[0] : 0;
  const bool fits = held == 1 || held == shape.experts_per_rank() || held == shape.experts;
  if (entry->element != Element::f32 || held < 1 || !fits) {
    return wrong(part, name,
                 fmt::format("is {}, expected F32 [1], [{}] or [{}]", text(*entry),
                             shape.experts_per_rank(), shape.experts));
  }
  const Result<std::vector<float>> values = floats_in(part.file, name);
  if (values.reason) return values.reason;
  for (std::size_t e = 1; e < values->size(); ++e) {
    if (std::bit_cast<std::uint32_t>((*values)[e]) != std::bit_cast<std::uint32_t>((*values)[0])) {
      return wrong(part, name, fmt::format("value {} has other bits than value 0", e));
    }
  }
  return values->front();
}

Result<ByteVector> part_of(const Safetensors& file, Kind kind, std::int64_t at) {
  const TensorEntry* entry = file.find(layout::name(kind));
  const std::int64_t each = entry->bytes / entry->extents[0];
  ByteVector bytes(each);
  Reason reason = file.read(*entry, at * each, bytes);
  if (reason) return reason;
  return bytes;
}

// The extents of a tp tensor that was cut along its other axis, or not at all.
bool is_otherwise_cut(Kind kind, const layout::Shape& shape, const Extents& extents) {
  const layout::Matrix whole = layout::matrix(kind, layout::stock_widths(shape));
  const bool rows_due = layout::is_w13(kind);
  const Extents other_axis{shape.experts, rows_due ? whole.rows : whole.rows / shape.tp,
                           rows_due ? whole.row_bytes / shape.tp : whole.row_bytes};
  return extents == other_axis || extents == Extents{shape.experts, whole.rows, whole.row_bytes};
}

Reason contradicted(const Part& part, const layout::Shape& shape) {
  for (const auto& [key, due] :
       {std::pair<std::string, std::int64_t>{"intermediate", shape.slice()},
        {"num_experts", shape.experts}}) {
    const Result<std::optional<std::int64_t>> value = number_in(part, key);
    if (value.reason) return value.reason;
    if (*value && **value != due) {
      return wrong(part, fmt::format("__metadata__: {}", key),
                   fmt::format("is {}, expected {}", **value, due));
    }
  }
  return {};
}

// The rank that a file of a dump is of, by its name; nothing for any other file.
std::optional<std::int64_t> rank_in(std::string_view name) {
  for (const std::string_view kind : {"stock.rank", "tp.rank", "probe.rank"}) {
    constexpr std::string_view extension = ".safetensors";
    if (!name.starts_with(kind) || !name.ends_with(extension)) continue;
    const char* end = name.data() + name.size() - extension.size();
    std::int64_t rank = -1;
    const auto [stop, failed] = std::from_chars(name.data() + kind.size(), end, rank);
    if (failed == std::errc() && stop == end && rank >= 0) return rank;
  }
  return {};
}

// The files of a folder that are of a rank, by name.
std::set<std::string> rank_files(const std::string& folder) {
  std::set<std::string> made;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (rank_in(name)) made.insert(name);
  }
  return made;
}

struct PartCount {
  std::int64_t there = 0;
  std::string missing;
};

// In as many steps as files are there, whatever world the manifest says.
PartCount count_of(const std::set<std::string>& files, std::int64_t world,
                   std::string (*path)(const std::string&, std::int64_t)) {
  const auto name_of = [path](std::int64_t rank) { return path("", rank).substr(1); };
  PartCount made;
  for (const std::string& file : files) {
    const std::int64_t rank = *rank_in(file);
    if (rank < world && file == name_of(rank)) ++made.there;
  }
  std::int64_t rank = 0;
  while (rank < world && files.contains(name_of(rank))) ++rank;
  if (rank < world) made.missing = name_of(rank);
  return made;
}

// Why a file is there that the manifest has no rank for: the remains of a dump of another world.
Reason beyond(const std::set<std::string>& files, const std::string& folder, std::int64_t world) {
  for (const std::string& file : files) {
    if (*rank_in(file) < world) continue;
    return Reason(fmt::format("{}: is of no rank, the manifest's world is {}",
                              shown(fmt::format("{}/{}", folder, file)), world));
  }
  return {};
}

}  // namespace

std::string stock_path(const std::string& folder, std::int64_t rank) {
  return fmt::format("{}/stock.rank{}.safetensors", folder, rank);
}

std::string tp_path(const std::string& folder, std::int64_t rank) {
  return fmt::format("{}/tp.rank{}.safetensors", folder, rank);
}

std::string probe_path(const std::string& folder, std::int64_t rank) {
  return fmt::format("{}/probe.rank{}.safetensors", folder, rank);
}

Result<Safetensors> open_part(const std::string& folder, const std::string& path) {
  Reason reason = outside(folder, path.substr(folder.size() + 1));
  if (reason) return Reason(fmt::format("{}: {}", shown(path), reason.text()));
  return Safetensors::open(path);
}

Result<DumpParts> dump_parts(const std::string& folder, const Manifest& manifest) {
  const std::set<std::string> files = rank_files(folder);
  const std::array<PartCount, 3> parts{count_of(files, manifest.world, stock_path),
                                       count_of(files, manifest.world, tp_path),
                                       count_of(files, manifest.world, probe_path)};
  for (const PartCount& part : parts) {
    if (part.there != 0 && part.there != manifest.world) {
      return Reason(fmt::format("{}: is missing, the manifest's world is {}",
                                shown(folder + "/" + part.missing), manifest.world));
    }
  }
  Reason reason = beyond(files, folder, manifest.world);
  if (reason) return reason;
  return DumpParts{parts[0].there > 0, parts[1].there > 0, parts[2].there > 0};
}

Result<DumpStock> DumpStock::open(const std::string& folder, const Manifest& manifest,
                                  std::int64_t rank) {
  const layout::Shape& shape = manifest.shape;
  Result<Safetensors> opened = open_part(folder, stock_path(folder, rank));
  if (opened.reason) return opened.reason;
  const Part part{*opened, "stock", rank};
  for (const Kind kind : layout::kinds) {
    const Element element = layout::is_scale(kind) ? Element::f8_e4m3 : Element::u8;
    const Extents due = experts::stock_extents(kind, shape);
    Reason reason =
        undue(part, {layout::name(kind), element, due}, {shape.experts, due[1], due[2]});
    if (reason) return reason;
  }
  Result<DumpScalars> scalars = scalars_in(part, shape.experts_per_rank(), shape.experts);
  if (scalars.reason) return scalars.reason;
  const Result<float> a1 = gscale_in(part, "a1_gscale", shape);
  if (a1.reason) return a1.reason;
  const Result<float> a2 = gscale_in(part, "a2_gscale", shape);
  if (a2.reason) return a2.reason;
  const Result<std::optional<std::int64_t>> first = number_in(part, "first_expert");
  if (first.reason) return first.reason;
  if (!*first) return wrong(part, "__metadata__: first_expert", "is missing");
  DumpStock made;
  made.scalars_ = std::move(*scalars);
  made.first_expert_ = **first;
  made.a1_gscale_ = *a1;
  made.a2_gscale_ = *a2;
  made.file_ = std::move(*opened);
  return made;
}

Result<ByteVector> DumpStock::bytes(Kind kind, std::int64_t local) const {
  return part_of(*file_, kind, local);
}

Result<experts::ConvertedExpert> DumpStock::expert(std::int64_t local,
                                                   const layout::Widths& widths) const {
  experts::ConvertedExpert made;
  made.widths = widths;
  for (const Kind kind : layout::kinds) {
    Result<ByteVector> part = bytes(kind, local);
    if (part.reason) return part.reason;
    experts::bytes_of(made, kind) = std::move(*part);
  }
  return made;
}

Result<DumpTp> DumpTp::open(const std::string& folder, const Manifest& manifest,
                            std::int64_t rank) {
  const layout::Shape& shape = manifest.shape;
  Result<Safetensors> opened = open_part(folder, tp_path(folder, rank));
  if (opened.reason) return opened.reason;
  const Part part{*opened, "tp", rank};
  DumpTp made;
  for (const Kind kind : layout::kinds) {
    const TensorEntry* entry = opened->find(layout::name(kind));
    const bool as_e4m3 =
        layout::is_scale(kind) && entry != nullptr && entry->element == Element::f8_e4m3;
    const Element element = as_e4m3 ? Element::f8_e4m3 : Element::u8;
    const Extents due = experts::final_extents(kind, shape);
    if (entry != nullptr && entry->element == element && entry->extents != due &&
        is_otherwise_cut(kind, shape, entry->extents)) {
      made.otherwise_cut_[static_cast<std::size_t>(kind)] = true;
      continue;
    }
    Reason reason =
        undue(part, {layout::name(kind), element, due}, {shape.experts_per_rank(), due[1], due[2]});
    if (reason) return reason;
  }
  Result<DumpScalars> scalars = scalars_in(part, shape.experts, shape.experts_per_rank());
  if (scalars.reason) return scalars.reason;
  Reason reason = contradicted(part, shape);
  if (reason) return reason;
  made.scalars_ = std::move(*scalars);
  made.file_ = std::move(*opened);
  return made;
}

std::string DumpTp::extents(Kind kind) const { return text(*file_->find(layout::name(kind))); }

Result<ByteVector> DumpTp::bytes(Kind kind, std::int64_t expert) const {
  return part_of(*file_, kind, expert);
}

}  // namespace slicecheck::checkpoint
