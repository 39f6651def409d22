#include "properties/corpus.h"

#include "base/must.h"

namespace slicecheck::properties {

std::vector<SavedCase> corpus() {
  std::vector<SavedCase> all;
  for (const CorpusFile& file : corpus_files()) {
    const Result<SavedCase> saved = parsed(file.text);
    must(!saved.reason, file.name);
    all.push_back(*saved);
  }
  return all;
}

}  // namespace slicecheck::properties
