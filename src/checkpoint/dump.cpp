#include "checkpoint/dump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "checkpoint/in_quotes.h"

namespace slicecheck::checkpoint {
namespace {

namespace fs = std::filesystem;
using layout::Kind;

constexpr std::int64_t manifest_bytes_max = std::int64_t{16} << 20;

struct Member {
  std::string name;
  Tensor tensor;
};

Reason write_tensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                     const std::vector<Member>& members) {
  std::vector<TensorEntry> entries;
  for (const Member& member : members) {
    entries.push_back({member.name, element_of(member.tensor.dtype), member.tensor.extents, 0, 0});
  }
  Result<SafetensorsWriter> writer = SafetensorsWriter::create(path, metadata, std::move(entries));
  if (writer.reason) return writer.reason;
  for (const Member& member : members) {
    Reason reason = writer->add(host_bytes(member.tensor));
    if (reason) return reason;
  }
  return writer->finish();
}

// The four tensors and three scalars that either record holds.
template <typename Record>
std::vector<Member> members_of(const Record& record) {
  std::vector<Member> members;
  for (const Kind kind : layout::kinds) {
    members.push_back({std::string(layout::name(kind)), tensor_of(record, kind)});
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    members.push_back({std::string(experts::name(scalar)), tensor_of(record, scalar)});
  }
  return members;
}

Reason wrong(const Safetensors& file, std::string_view field, std::string_view why) {
  return Reason(fmt::format("{}: {}: {}", file.name(), field, why));
}

// The whole number that the metadata holds under `key`.
Result<std::int64_t> number_of(const Safetensors& file, const std::string& key) {
  const std::string field = fmt::format("__metadata__: {}", key);
  const auto at = file.metadata().find(key);
  if (at == file.metadata().end()) return wrong(file, field, "is missing");
  std::int64_t value = 0;
  const char* end = at->second.data() + at->second.size();
  const auto [stop, failed] = std::from_chars(at->second.data(), end, value);
  if (failed == std::errc() && stop == end && value >= 0) return value;
  return wrong(file, field, fmt::format("is {}, not a whole number", in_quotes(at->second)));
}

// What a tensor of a dump must be.
struct Due {
  std::string name;
  Dtype dtype = Dtype::u8;
  Extents extents;
};

Result<Tensor> tensor_in(const Safetensors& file, const Due& due) {
  const TensorEntry* entry = file.find(due.name);
  if (entry == nullptr) return wrong(file, due.name, "is missing");
  if (entry->element != element_of(due.dtype) || entry->extents != due.extents) {
    return wrong(
        file, due.name,
        fmt::format("is {}, expected {} {}", text(*entry), name(due.dtype), text(due.extents)));
  }
  Tensor made = host_tensor(due.dtype, due.extents);
  Reason reason = file.read(*entry, 0, host_bytes(made));
  if (reason) return reason;
  return made;
}

// A gscale: F32 [1], or [Er] or [E] of equal bits, as [1].
Result<Tensor> gscale_in(const Safetensors& file, const std::string& name,
                         const layout::Shape& shape) {
  const TensorEntry* entry = file.find(name);
  if (entry == nullptr) return wrong(file, name, "is missing");
  const bool one_axis = entry->extents.size() == 1;
  const std::int64_t held = one_axis ? entry->extents[0] : 0;
  if (entry->element != Element::f32 ||
      (held != 1 && held != shape.experts_per_rank() && held != shape.experts)) {
    return wrong(file, name,
                 fmt::format("is {}, expected F32 [1], [{}] or [{}]", text(*entry),
                             shape.experts_per_rank(), shape.experts));
  }
  Result<Tensor> values = tensor_in(file, {name, Dtype::f32, entry->extents});
  if (values.reason) return values.reason;
  const Bytes bytes = host_bytes(*values);
  for (std::int64_t e = 1; e < held; ++e) {
    if (!std::equal(bytes.begin(), bytes.begin() + 4, bytes.begin() + 4 * e)) {
      return wrong(file, name, fmt::format("value {} has other bits than value 0", e));
    }
  }
  Tensor one = host_tensor(Dtype::f32, {1});
  std::copy(bytes.begin(), bytes.begin() + 4, host_bytes(one).begin());
  return one;
}

template <typename Record>
Reason read_scalars(const Safetensors& file, std::int64_t count, Record& record) {
  for (const experts::Scalar scalar : experts::all_scalars) {
    Result<Tensor> values =
        tensor_in(file, {std::string(experts::name(scalar)), Dtype::f32, {count}});
    if (values.reason) return values.reason;
    tensor_of(record, scalar) = std::move(*values);
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

Reason claim_dump(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder)) {
    return Reason(fmt::format("--dump: {}: cannot be made a folder: {}", shown(folder),
                              failed ? failed.message() : "it is a file"));
  }
  const bool empty = fs::is_empty(folder, failed);
  if (failed) {
    return Reason(fmt::format("--dump: {}: cannot be read: {}", shown(folder), failed.message()));
  }
  if (!empty) return Reason(fmt::format("--dump: {}: is not empty", shown(folder)));
  return {};
}

Reason write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/manifest.json";
  const std::string text = manifest_text(manifest);
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool written = descriptor >= 0 && ::write(descriptor, text.data(), text.size()) ==
                                              static_cast<ssize_t>(text.size());
  const bool closed = descriptor >= 0 && ::close(descriptor) == 0;
  if (written && closed) return {};
  return Reason(fmt::format("{}: cannot be written: {}", shown(path), strerror(errno)));
}

Reason write_stock(const std::string& folder, std::int64_t rank,
                   const experts::StockExperts& stock) {
  std::vector<Member> members = members_of(stock);
  members.push_back({"a1_gscale", stock.a1_gscale});
  members.push_back({"a2_gscale", stock.a2_gscale});
  return write_tensors(stock_path(folder, rank),
                       {{"first_expert", fmt::format("{}", stock.first_expert)}}, members);
}

Reason write_tp(const std::string& folder, std::int64_t rank, const experts::TpExperts& tp) {
  return write_tensors(tp_path(folder, rank),
                       {{"intermediate", fmt::format("{}", tp.intermediate)},
                        {"num_experts", fmt::format("{}", tp.num_experts)}},
                       members_of(tp));
}

Result<Manifest> read_manifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  const Result<std::string> text = text_of(path, manifest_bytes_max);
  if (text.reason) return text.reason;
  Result<Manifest> manifest = manifest_of(*text);
  if (manifest.reason) return Reason(fmt::format("{}: {}", shown(path), manifest.reason.text()));
  return manifest;
}

Result<experts::StockExperts> read_stock(const std::string& folder, const Manifest& manifest,
                                         std::int64_t rank) {
  const layout::Shape& shape = manifest.shape;
  const Result<Safetensors> file = Safetensors::open(stock_path(folder, rank));
  if (file.reason) return file.reason;
  experts::StockExperts made;
  const Result<std::int64_t> first = number_of(*file, "first_expert");
  if (first.reason) return first.reason;
  made.first_expert = *first;
  for (const Kind kind : layout::kinds) {
    const Dtype dtype = layout::is_scale(kind) ? Dtype::f8_e4m3 : Dtype::u8;
    Result<Tensor> tensor = tensor_in(
        *file, {std::string(layout::name(kind)), dtype, experts::stock_extents(kind, shape)});
    if (tensor.reason) return tensor.reason;
    tensor_of(made, kind) = std::move(*tensor);
  }
  Reason reason = read_scalars(*file, shape.experts_per_rank(), made);
  if (reason) return reason;
  Result<Tensor> gscale = gscale_in(*file, "a1_gscale", shape);
  if (gscale.reason) return gscale.reason;
  made.a1_gscale = std::move(*gscale);
  gscale = gscale_in(*file, "a2_gscale", shape);
  if (gscale.reason) return gscale.reason;
  made.a2_gscale = std::move(*gscale);
  return made;
}

Result<experts::TpExperts> read_tp(const std::string& folder, const Manifest& manifest,
                                   std::int64_t rank) {
  const layout::Shape& shape = manifest.shape;
  const Result<Safetensors> file = Safetensors::open(tp_path(folder, rank));
  if (file.reason) return file.reason;
  experts::TpExperts made;
  for (const Kind kind : layout::kinds) {
    const std::string name(layout::name(kind));
    const TensorEntry* entry = file->find(name);
    const bool as_e4m3 =
        layout::is_scale(kind) && entry != nullptr && entry->element == Element::f8_e4m3;
    Result<Tensor> tensor = tensor_in(
        *file, {name, as_e4m3 ? Dtype::f8_e4m3 : Dtype::u8, experts::final_extents(kind, shape)});
    if (tensor.reason) return tensor.reason;
    tensor_of(made, kind) = std::move(*tensor);
  }
  Reason reason = read_scalars(*file, shape.experts, made);
  if (reason) return reason;
  const Result<std::int64_t> intermediate = number_of(*file, "intermediate");
  if (intermediate.reason) return intermediate.reason;
  const Result<std::int64_t> experts = number_of(*file, "num_experts");
  if (experts.reason) return experts.reason;
  made.intermediate = *intermediate;
  made.num_experts = *experts;
  return made;
}

}  // namespace slicecheck::checkpoint
