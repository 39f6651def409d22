#include "app/case_keeper.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace slicecheck::app {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

report::Report hung_report(const properties::SavedCase& saved, const std::string& text) {
  report::Report made;
  made.run_case = {{"law", saved.law}, {"case", properties::json(saved)}};
  made.checks.push_back(
      {"law." + saved.law, 0, 0, report::Status::failed, 1, 1, "the case did not end", {}});
  report::Finding finding;
  finding.cause = "rank-hung";
  finding.side = report::Side::machine;
  finding.text = text;
  made.findings.push_back(std::move(finding));
  return made;
}

}  // namespace

CaseKeeper::CaseKeeper(const Context& context)
    : context_(context),
      saves_(context.world.rank() == 0 && context.options.command != "replay"),
      watch_(std::chrono::duration<double>(context.options.timeout), [this] { late(); }) {}

void CaseKeeper::operator()(const properties::SavedCase* saved) {
  const std::lock_guard lock(mutex_);
  const bool ended =
      saves_ && together_ && running_ && (saved == nullptr || saved->law != running_->law);
  if (ended) std::remove(path_of(*running_).c_str());
  running_.reset();
  if (saved == nullptr) {
    watch_.end();
    return;
  }
  running_ = *saved;
  if (together(*saved) && saves_) write(*saved);
  watch_.begin();
}

// Asked for every case, and the same for all of a law.
bool CaseKeeper::together(const properties::SavedCase& saved) {
  if (saved.law == law_) return together_;
  law_ = saved.law;
  const std::optional<properties::Law> law = properties::law_named(law_);
  together_ = law.has_value() && law->broken_together != nullptr;
  return together_;
}

std::string CaseKeeper::keep(const properties::SavedCase& saved) {
  write(saved);
  return again(saved);
}

std::string CaseKeeper::path_of(const properties::SavedCase& saved) const {
  return fmt::format("{}slicecheck-case.{}.json", folder_of(context_.options.report), saved.law);
}

std::string CaseKeeper::again(const properties::SavedCase& saved) const {
  const bool replayed = context_.options.command == "replay";
  const std::string path = replayed ? context_.options.paths.at(0) : path_of(saved);
  const std::int64_t ranks = saved.given.shape.tp;
  if (context_.world.name() == "local") return fmt::format("slicecheck replay {}", path);
  return fmt::format("mpirun -n {} slicecheck replay {}", ranks, path);
}

void CaseKeeper::write(const properties::SavedCase& saved) const {
  // By rename, under a name of this thread's own: ranks may be threads, and late at once.
  const std::string path = path_of(saved);
  const std::string temporary = fmt::format("{}.{}.part", path, ::gettid());
  std::ofstream file(temporary);
  file << properties::json(saved) << "\n";
  file.close();
  if (std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

void CaseKeeper::late() {
  const std::lock_guard lock(mutex_);
  if (!running_) return;
  const std::string text = fmt::format("no verdict on {} within {} s",
                                       properties::text(running_->given), context_.options.timeout);
  const bool replayed = context_.options.command == "replay";
  if (!together_ && !replayed) write(*running_);
  fmt::print(stderr, "slicecheck: rank {}: {}; run it again: {}\n", context_.world.rank(), text,
             again(*running_));
  std::fflush(nullptr);
  report::Report part = hung_report(*running_, text);
  // A case of all ranks together is one, whoever says that it does not end.
  if (!together_) part.findings.front().ranks = {context_.world.rank()};
  if (together_ && context_.world.rank() != 0)
    part.checks.front().compared = part.checks.front().differing = 0;
  context_.stuck(part);
}

}  // namespace slicecheck::app
