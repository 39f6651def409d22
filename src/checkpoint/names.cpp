#include "checkpoint/names.h"

#include <charconv>

namespace slicecheck::checkpoint {
namespace {

constexpr std::string_view layers_segment = "layers.";
constexpr std::string_view experts_segment = "experts.";

// Where `segment` (with its dot) begins at or after `from` as a whole segment; npos for nowhere.
std::size_t segment_at(std::string_view name, std::string_view segment, std::size_t from) {
  for (std::size_t at = name.find(segment, from); at != std::string_view::npos;
       at = name.find(segment, at + 1)) {
    if (at == 0 || name[at - 1] == '.') return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<ExpertsRoot> experts_root(std::string_view tensor) {
  const std::size_t layers = segment_at(tensor, layers_segment, 0);
  if (layers == std::string_view::npos) return {};
  const char* number = tensor.data() + layers + layers_segment.size();
  ExpertsRoot root;
  const auto [end, failed] = std::from_chars(number, tensor.data() + tensor.size(), root.layer);
  if (failed != std::errc() || root.layer < 0 || end == tensor.data() + tensor.size() ||
      *end != '.') {
    return {};
  }
  const std::size_t experts =
      segment_at(tensor, experts_segment, static_cast<std::size_t>(end - tensor.data()));
  if (experts == std::string_view::npos) return {};
  root.name = std::string(tensor.substr(0, experts + experts_segment.size() - 1));
  return root;
}

}  // namespace slicecheck::checkpoint
