// The program as it is shipped, with a mistake planted in what the laws are about: the environment
// variable SLICECHECK_PLANTED names it. What a broken law, a rank that fails inside a case and one
// that never comes back look like from outside is tested with this; it is never installed.
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "app/program.h"
#include "base/must.h"
#include "properties/planted.h"

namespace {

using namespace slicecheck;
using experts::StockExperts;
using experts::TpExperts;

TpExperts throws(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  if (group.rank() == 1) throw std::runtime_error("this rank has had enough");
  return reshard::reshard_nvfp4(stock, group, experts);
}

TpExperts returns_early(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  if (group.rank() == 1) return {};
  return reshard::reshard_nvfp4(stock, group, experts);
}

TpExperts hangs(const StockExperts& stock, group::Group& group, std::int64_t experts) {
  while (group.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
  return reshard::reshard_nvfp4(stock, group, experts);
}

// Of one process's laws: no rank waits for another inside the case.
experts::ConvertedExpert throws_alone(const experts::PlainExpert& plain) {
  if (plain.widths.hidden > 128) throw std::runtime_error("this process has had enough");
  return experts::converted(plain);
}

experts::ConvertedExpert hangs_alone(const experts::PlainExpert& plain) {
  while (plain.widths.hidden > 128) std::this_thread::sleep_for(std::chrono::seconds(1));
  return experts::converted(plain);
}

properties::Subject subject_named(const std::string& name) {
  properties::Subject made;
  if (name == "throws") made.reshard = throws;
  if (name == "returns early") made.reshard = returns_early;
  if (name == "hangs") made.reshard = hangs;
  if (name == "throws alone") made.converted = throws_alone;
  if (name == "hangs alone") made.converted = hangs_alone;
  const properties::Subject right;
  const bool changed = made.reshard != right.reshard || made.converted != right.converted;
  if (changed || name.empty()) return made;
  for (const auto& planted :
       {properties::planted_maps(), properties::planted_groups(), properties::planted_files()}) {
    for (const properties::Planted& each : planted) {
      if (each.name == name) return each.subject;
    }
  }
  bug("no mistake is named " + name);
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = std::getenv("SLICECHECK_PLANTED");
  const engine::Lookup engines = engine::built_in;
  return app::run(argc, argv, {engines, subject_named(name == nullptr ? "" : name)});
}
