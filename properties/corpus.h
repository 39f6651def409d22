// Cases worth trying before all random ones: golden/corpus, built into the program.
#pragma once

#include <string_view>
#include <vector>

#include "properties/generators/case.h"

namespace slicecheck::properties {

/// A file of golden/corpus and its text.
struct CorpusFile {
  std::string_view name;
  std::string_view text;
};
std::vector<CorpusFile> corpus_files();

/// The cases that they hold.
std::vector<SavedCase> corpus();

}  // namespace slicecheck::properties
