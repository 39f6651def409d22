// slicecheck cluster: whether a fresh cluster can be trusted with a reshard. What each rank sees of
// its machine is held against the others', then each pair of ranks exchanges bytes, over the host's
// transport and between devices; at last the scales of a checkpoint, where one is given.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "app/command.h"
#include "app/verdicts.h"
#include "base/majority.h"
#include "checkpoint/file.h"
#include "cluster/links.h"
#include "cluster/machines.h"
#include "group/agree.h"
#include "group/nccl/nccl_group.h"
#include "memory/cuda/device.h"

namespace slicecheck::app {
namespace {

using cluster::Fault;
using cluster::LinkOptions;
using cluster::Machine;
using cluster::Said;

constexpr std::int64_t device_times = 8;
constexpr double device_noise_seconds = 0.001;
constexpr double host_noise_seconds = 0.005;                      // a scheduler's
constexpr std::int64_t json_bytes_max = std::int64_t{256} << 20;  // of a checkpoint's index

/// Bytes of a block, and how often it is sent.
std::pair<std::int64_t, int> effort_of(Level level) {
  switch (level) {
    case Level::smoke:
      return {std::int64_t{2} << 20, 3};
    case Level::ci:
      return {std::int64_t{32} << 20, 5};
    case Level::full:
      return {std::int64_t{256} << 20, 9};
    case Level::soak:
      break;
  }
  return {std::int64_t{512} << 20, 30};
}

report::Status status_of(const Said& said) {
  const bool fails = std::any_of(said.faults.begin(), said.faults.end(),
                                 [](const Fault& fault) { return !fault.warning; });
  if (fails) return report::Status::failed;
  if (!said.skipped.empty()) return report::Status::skipped;
  return said.differing > 0 ? report::Status::warning : report::Status::passed;
}

/// Bytes and links that are wrong fail; whatever else is wrong of a machine refuses it.
bool refuses(const Fault& fault) {
  return !fault.warning && fault.cause != "transport-corruption" && fault.cause != "slow-link";
}

class Cluster {
 public:
  explicit Cluster(Context& context)
      : context_(context), world_(context.world), tells_(world_.rank() == 0) {}

  report::Report run();

 private:
  Machine own_machine();
  void look_at_machines();
  void try_links(group::Group& group, const LinkOptions& options);
  void try_devices();
  void try_checkpoint();
  std::string no_devices_to_try() const;
  void skip(const std::vector<std::string>& checks, const std::string& why);
  void refuse(const std::string& sentence);
  void add(const Said& said);
  void add_all(const std::vector<Said>& all);
  void add_refused(const group::Refusal& refusal);
  LinkOptions link_options(std::string name, bool devices) const;
  std::vector<std::string> hosts() const;

  Context& context_;
  group::Group& world_;
  const bool tells_;  // what all ranks know is said by one
  report::Report mine_;
  std::vector<Machine> machines_;
};

// The first sentence stands for the run.
void Cluster::refuse(const std::string& sentence) {
  const bool first = std::none_of(mine_.run_case.begin(), mine_.run_case.end(),
                                  [](const auto& each) { return each.first == "refusal"; });
  if (first) mine_.run_case.emplace_back("refusal", sentence);
}

// Rank 0 says what all ranks have come to alike.
void Cluster::add(const Said& said) {
  for (const Fault& fault : said.faults) {
    if (!refuses(fault)) continue;
    mine_.verdict = report::worst(mine_.verdict, report::Verdict::refused);
    refuse(fault.text);
  }
  if (!tells_) return;
  report::Check check;
  check.id = said.id;
  check.status = status_of(said);
  check.compared = said.compared;
  check.differing = said.differing;
  check.text = said.skipped.empty() ? said.text : said.skipped;
  mine_.checks.push_back(std::move(check));
  for (const Fault& fault : said.faults) {
    report::Finding finding;
    finding.cause = fault.cause;
    finding.severity = fault.warning ? report::Severity::warning : report::Severity::error;
    finding.side = report::Side::machine;
    finding.ranks = fault.ranks;
    finding.text = fault.text;
    mine_.findings.push_back(std::move(finding));
  }
}

void Cluster::add_all(const std::vector<Said>& all) {
  for (const Said& said : all) add(said);
}

// Each rank's own reason is its own finding.
void Cluster::add_refused(const group::Refusal& refusal) {
  report::Report made = refused(refusal, {world_.rank(), 0, world_.rank(), world_.size()});
  refuse(refusal.what());
  report::append(mine_, std::move(made));
}

Machine Cluster::own_machine() {
  Machine made = cluster::machine_here();
  made.host = context_.place.host;
  for (const auto& [name, value] : versions(context_.place)) {
    if (name != "compiler") made.versions[name] = std::get<std::string>(value);
  }
  const Result<std::vector<memory::Device>> devices = memory::devices();
  if (devices.reason) {
    made.no_device = devices.reason.text();
    return made;
  }
  const Place& place = context_.place;
  const Result<int> index =
      group::device_of({place.host_rank, place.host_ranks, 0, context_.options.share_gpu},
                       static_cast<int>(devices->size()));
  if (index.reason) {
    made.no_device = index.reason.text();
    return made;
  }
  made.device = (*devices)[*index].bus_id;
  made.device_node = cluster::node_of_device(made.device);
  return made;
}

void Cluster::look_at_machines() {
  context_.progress.phase("machines");
  const Machine mine = own_machine();
  for (const std::string& text : group::share_texts(world_, cluster::written(mine))) {
    machines_.push_back(cluster::read(text));
  }
  report::RankEntry entry{world_.rank(), 0, mine.host, mine.device, 0, {}};
  entry.more = {{"processors", std::ssize(mine.cpus)},
                {"files_limit", mine.files_limit},
                {"locked_limit", mine.locked_limit},
                {"shared_free", mine.shared_free}};
  mine_.ranks = {std::move(entry)};
  add_all(cluster::of_machines(machines_, 4 * effort_of(context_.options.level).first,
                               world_.name() == "local"));
}

std::vector<std::string> Cluster::hosts() const {
  std::vector<std::string> made;
  for (const Machine& each : machines_) made.push_back(cluster::place_of(each));
  return made;
}

// Devices send so much more in the same time, and each is held against each: within a host of
// processes the scheduler makes the difference.
LinkOptions Cluster::link_options(std::string name, bool devices) const {
  const auto [bytes, times] = effort_of(context_.options.level);
  const std::int64_t of_these = devices ? device_times * bytes : bytes;
  return {std::move(name),
          of_these,
          times,
          context_.options.seed,
          hosts(),
          devices,
          devices ? device_noise_seconds : host_noise_seconds};
}

void Cluster::try_links(group::Group& group, const LinkOptions& options) {
  context_.progress.phase(options.name);
  try {
    add(cluster::of_exchange(cluster::exchange(group, options), options));
    const std::vector<cluster::Link> links = cluster::links(group, options);
    add_all(cluster::of_links(links, options));
    mine_.ranks.front().more.emplace_back("gb_per_s_" + options.name,
                                          cluster::row_of(links, options, world_.rank()));
  } catch (const group::Refusal& refusal) {
    add_refused(refusal);
    skip({options.name + ".exchange", options.name + ".bytes", options.name + ".links"},
         refusal.what());
  }
}

// What has been said stands.
void Cluster::skip(const std::vector<std::string>& checks, const std::string& why) {
  for (const std::string& id : checks) {
    const bool said = std::any_of(mine_.checks.begin(), mine_.checks.end(),
                                  [&](const report::Check& check) { return check.id == id; });
    if (!said) add({id, 0, 0, {}, {}, why});
  }
}

// By what all ranks know of each other: they go the same way.
std::string Cluster::no_devices_to_try() const {
  const Transport transport = context_.options.transport;
  if (world_.name() == "local") return "ranks are threads of one process";
  if (transport == Transport::mpi) return "--transport mpi: host memory alone";
  if (transport == Transport::nccl) return {};
  const auto has_nccl = [](const Machine& each) { return each.versions.contains("nccl"); };
  const auto has_device = [](const Machine& each) { return !each.device.empty(); };
  if (!std::all_of(machines_.begin(), machines_.end(), has_nccl)) return "not all have NCCL";
  const bool any = std::any_of(machines_.begin(), machines_.end(), has_device);
  return any ? "" : "no rank has a GPU: " + machines_.front().no_device;
}

void Cluster::try_devices() {
  if (const std::string none = no_devices_to_try(); !none.empty()) {
    return skip({"devices", "devices.near", "devices.exchange", "devices.bytes", "devices.links"},
                none);
  }
  Said devices{"devices", std::ssize(machines_), 0, "a GPU a rank", {}, {}};
  std::vector<int> without;
  for (std::size_t rank = 0; rank < machines_.size(); ++rank) {
    if (machines_[rank].device.empty()) without.push_back(static_cast<int>(rank));
  }
  devices.differing = std::ssize(without);
  add(cluster::near_devices(machines_));
  if (!without.empty()) {
    devices.faults.push_back({"no-device", without, machines_[without.front()].no_device});
    add(devices);
    return skip({"devices.exchange", "devices.bytes", "devices.links"}, "not all ranks have a GPU");
  }
  std::unique_ptr<group::Group> group;
  try {
    group = context_.devices();
  } catch (const group::Refusal& refusal) {
    add_refused(refusal);
    if (tells_) {
      mine_.checks.push_back({"devices", 0, 0, report::Status::failed, 1, 1, refusal.what(), {}});
    }
    return skip({"devices.exchange", "devices.bytes", "devices.links"}, "the devices are no group");
  }
  add(devices);
  try_links(*group, link_options("devices", true));
}

/// What a host has of a checkpoint: its files and their sizes, and the text of what describes it;
/// empty where it has none.
std::string checkpoint_text(const std::string& folder) {
  std::vector<std::string> parts;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); !error && at != end;
       at.increment(error)) {
    const std::filesystem::path path = at->path();
    const std::string extension = path.extension();
    if (extension != ".json" && extension != ".safetensors") continue;
    std::error_code unknown;
    const std::uintmax_t size = std::filesystem::file_size(path, unknown);
    std::string part = fmt::format("{} {}\n", path.filename().string(), size);
    if (extension == ".json") {
      const Result<std::string> text = checkpoint::text_of(path, json_bytes_max);
      part += text.reason ? text.reason.text() : *text;
    }
    parts.push_back(std::move(part));
  }
  std::sort(parts.begin(), parts.end());
  return error ? std::string() : fmt::format("{}", fmt::join(parts, ""));
}

void Cluster::try_checkpoint() {
  const std::string& folder = context_.options.experts.checkpoint;
  if (folder.empty()) return;
  context_.progress.phase("checkpoint");
  const std::string text = checkpoint_text(folder);
  const std::string own =
      hex(digest({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
  const std::vector<std::string> all = group::share_texts(world_, own);
  const std::vector<int> few = minority(all, majority(all));
  Said said{"checkpoint.same", std::ssize(all), std::ssize(few), "names, sizes and JSON", {}, {}};
  if (few.empty() && text.empty()) said.skipped = "no rank sees a file of it";
  if (!few.empty()) {
    said.faults.push_back(
        {"shape-differs-across-ranks", few,
         fmt::format("{}: rank {} sees other files, sizes or JSON than most ranks do", folder,
                     few.front())});
    return add(said);
  }
  add(said);
  Options options = context_.options;
  options.paths = {folder};
  Context context = context_.with(options);
  try {
    report::append(mine_, audit_command(context));
  } catch (const group::Refusal& refusal) {
    add_refused(refusal);
  }
}

report::Report Cluster::run() {
  const auto [bytes, times] = effort_of(context_.options.level);
  mine_.run_case = {{"ranks", std::int64_t{world_.size()}},
                    {"block_bytes", bytes},
                    {"times", std::int64_t{times}}};
  look_at_machines();
  context_.keep(mine_);
  try_links(world_, link_options("host", false));
  context_.keep(mine_);
  try_devices();
  context_.keep(mine_);
  try_checkpoint();
  return std::move(mine_);
}

}  // namespace

std::vector<std::string> cluster_checks() {
  return {"launch.hosts",  "launch.versions",   "limits.files",  "limits.locked",
          "limits.shared", "limits.processors", "host.exchange", "host.bytes",
          "host.links",    "devices.near",      "devices",       "devices.exchange",
          "devices.bytes", "devices.links"};
}

report::Report cluster_command(Context& context) { return Cluster(context).run(); }

}  // namespace slicecheck::app
