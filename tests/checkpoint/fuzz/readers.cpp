// What libFuzzer runs: one reader of untrusted text, chosen by SLICECHECK_FUZZ_READER. A reader may
// refuse anything, in one printable line; what it accepts must hold what it promises.
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/must.h"
#include "checkpoint/config_claims.h"
#include "checkpoint/config_sizes.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/shards.h"
#include "report/report.h"

namespace slicecheck {
namespace {

void expect_one_line(const Reason& reason) {
  if (!reason) return;
  const std::string& text = reason.text();
  must(!text.empty() && text.size() < 2000, "a reason of no or endless text");
  for (const char c : text) must(c >= ' ' && c <= '~', fmt::format("not printable: {}", text));
}

bool operator==(const checkpoint::TensorEntry& a, const checkpoint::TensorEntry& b) {
  return a.name == b.name && a.element == b.element && a.extents == b.extents &&
         a.begin == b.begin && a.bytes == b.bytes;
}

// 8 bytes: how many bytes of tensors lie behind the header; then the header.
void read_safetensors(std::string_view text) {
  if (text.size() < 8) return;
  const auto data_bytes = load<std::int64_t>(reinterpret_cast<const std::uint8_t*>(text.data()));
  if (data_bytes < 0) return;
  const Result<checkpoint::Header> header = checkpoint::header_of(text.substr(8), data_bytes);
  expect_one_line(header.reason);
  if (header.reason) return;
  std::int64_t end = 0;
  for (const checkpoint::TensorEntry& entry : header->tensors) {
    must(entry.begin == end && entry.bytes >= 0, "accepted a hole or an overlap");
    must(checkpoint::bytes_of(entry.element, entry.extents) == entry.bytes,
         "accepted a wrong span");
    end += entry.bytes;
  }
  must(end == data_bytes, "accepted another end");
  const Result<checkpoint::Header> again =
      checkpoint::header_of(checkpoint::header_text(*header), data_bytes);
  must(!again.reason, "wrote what it cannot read");
  must(again->metadata == header->metadata, "another metadata read again");
  must(again->tensors.size() == header->tensors.size(), "other tensors read again");
  for (std::size_t i = 0; i < again->tensors.size(); ++i) {
    must(again->tensors[i] == header->tensors[i], "another tensor read again");
  }
}

void read_index(std::string_view text) { expect_one_line(checkpoint::weight_map_of(text).reason); }

void read_config(std::string_view text) {
  checkpoint::Config config;
  expect_one_line(checkpoint::take_config(text, "config.json", config));
  expect_one_line(checkpoint::take_quantization(text, "hf_quant_config.json", config));
  const auto left_out = checkpoint::left_out(
      config, {"model.layers.3.mlp.experts", "model.layers.3.mlp.experts.0.up_proj"});
  expect_one_line(left_out.reason);
  const checkpoint::Claims claims(config);
  expect_one_line(claims.contradiction("model.layers.3.mlp.experts.0.up_proj"));
  must(claims.input("model.layers.3.mlp.experts").field.find('\n') == std::string::npos,
       "a claim of two lines");
  const checkpoint::ContrarySizes sizes =
      checkpoint::contrary_sizes(config.sizes, {640, 384}, "model.layers.3.mlp.experts");
  for (const Reason& reason : sizes.wrong) expect_one_line(reason);
  for (const Reason& reason : sizes.padded) expect_one_line(reason);
}

void read_manifest(std::string_view text) {
  const Result<checkpoint::Manifest> manifest = checkpoint::manifest_of(text);
  expect_one_line(manifest.reason);
  if (manifest.reason) return;
  must(manifest->ranks.size() == static_cast<std::size_t>(manifest->world), "ranks of no world");
  must(manifest->world % manifest->shape.tp == 0, "groups of no world");
  const Result<checkpoint::Manifest> again =
      checkpoint::manifest_of(checkpoint::manifest_text(*manifest));
  must(!again.reason && *again == *manifest, "another manifest read again");
}

void read_report(std::string_view text) {
  const Result<report::Report> report = report::parsed(text);
  expect_one_line(report.reason);
  if (report.reason) return;
  const std::string written = report::json(*report);
  const Result<report::Report> again = report::parsed(written);
  must(!again.reason && report::json(*again) == written, "another report read again");
}

using Reader = void (*)(std::string_view);

Reader chosen() {
  const char* name = std::getenv("SLICECHECK_FUZZ_READER");
  must(name != nullptr, "SLICECHECK_FUZZ_READER names no reader");
  for (const auto& [known, reader] :
       {std::pair<std::string_view, Reader>{"safetensors", read_safetensors},
        {"index", read_index},
        {"config", read_config},
        {"manifest", read_manifest},
        {"report", read_report}}) {
    if (known == name) return reader;
  }
  bug(fmt::format("SLICECHECK_FUZZ_READER={} is no reader", name));
}

}  // namespace
}  // namespace slicecheck

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const slicecheck::Reader reader = slicecheck::chosen();
  reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
