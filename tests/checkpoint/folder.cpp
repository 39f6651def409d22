#include "folder.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace slicecheck::checkpoint {

Folder::Folder() {
  if (folder_.reason()) std::abort();
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string safetensors(std::string_view header, std::size_t data_bytes) {
  std::string made(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    made[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  }
  return made + std::string(header) + std::string(data_bytes, '\x01');
}

std::string golden(std::string_view name) {
  return std::string(SLICECHECK_SOURCE_DIR) + "/golden/" + std::string(name);
}

}  // namespace slicecheck::checkpoint
