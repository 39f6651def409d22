// The journals of this process's ranks: what each has found so far, in a folder of this host, for
// whoever is left to report. A disk may take seconds: they are written on a thread of their own,
// and a rank waits for its journal for a moment at most, since a slow disk is no rank that hangs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/reason.h"
#include "report/report.h"

namespace slicecheck::app {

inline constexpr std::int64_t journal_bytes_max = std::int64_t{64} << 20;

class Journals {
 public:
  /// Nothing is made yet; the name of the folder is by lot.
  Journals();
  ~Journals();
  Journals(const Journals&) = delete;
  Journals& operator=(const Journals&) = delete;

  /// The folder's name, without what it lies in; all ranks of a launch have one.
  std::string name() const;
  void rename(const std::string& name);

  /// Makes the folder and begins to write. Once, before the ranks go on: a journal that comes late,
  /// when another rank has taken all of them away, must not bring the folder back.
  void begin();

  /// Writes what rank `rank` has found in place of what it had found before.
  void keep(int rank, report::Report part);

  /// What the journal of a rank of this host says, also one of another process.
  Result<std::string> text_of(int rank) const;

  /// Removes the journals of these ranks, and the folder with the last one of this host.
  /// None is written after it.
  void remove(const std::vector<int>& ranks);

  /// Removes all of them, those that lost ranks have left too. None is written after it.
  void remove_all();

 private:
  std::string folder() const;
  std::string file(int rank) const;
  void write(const std::stop_token& stop);
  void settle();

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string name_;
  std::map<int, report::Report> waiting_;  // by rank: what is to be written
  bool writing_ = false;                   // a file, or the folder
  bool ended_ = false;
  std::jthread thread_;
};

}  // namespace slicecheck::app
