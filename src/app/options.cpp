#include "app/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

#include "app/models.h"

namespace slicecheck::app {
namespace {

// A finite number above 0. The library's own check lets NaN pass and shows 309 digits.
std::string not_positive(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.data() + text.size();
  if (whole && std::isfinite(value) && value > 0) return {};
  return fmt::format("\"{}\" is no finite number above 0", text);
}

// What an unset variable leaves of an option: nothing would be done, and it would look done.
std::string empty(const std::string& text) { return text.empty() ? "it is empty" : std::string(); }

// The option of a word like --law=, for which the library would take the word behind it.
Reason empty_behind_equals(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return {};
    if (word.starts_with("--") && word.ends_with("=") && word.find('=') == word.size() - 1) {
      return Reason(fmt::format("{}: it is empty", word.substr(0, word.size() - 1)));
    }
  }
  return {};
}

// A whole number in decimal. The library takes 010 for 8 and, unsigned, -1 for 2^64 - 1.
template <typename Integer>
CLI::Validator whole(Integer least, Integer most) {
  const bool all = std::cmp_equal(most, std::numeric_limits<std::uint64_t>::max());
  const std::string range =
      all ? fmt::format("{} to 2^64 - 1", least) : fmt::format("{} to {}", least, most);
  const auto no_number = [least, most, range](std::string& text) {
    Integer value = 0;
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || last != end || value < least || value > most) {
      return fmt::format("\"{}\" is no whole number from {}", text, range);
    }
    text = fmt::format("{}", value);
    return std::string();
  };
  return CLI::Validator(no_number, range);
}

CLI::Validator whole(int least, int most) { return whole(std::int64_t{least}, std::int64_t{most}); }

// One of these words. The library's own transformers take the values' numbers too, and show them.
template <typename T>
CLI::Validator word_of(const std::map<std::string, T>& words) {
  std::string names;
  for (const auto& [word, value] : words) names += (names.empty() ? "" : ", ") + word;
  const auto unknown = [words, names](std::string& text) {
    const auto found = words.find(text);
    if (found == words.end()) return fmt::format("{} is none of {}", text, names);
    text = fmt::format("{}", static_cast<int>(found->second));
    return std::string();
  };
  return CLI::Validator(unknown, "{" + names + "}");
}

const std::map<std::string, Transport> transports{
    {"local", Transport::local}, {"mpi", Transport::mpi}, {"nccl", Transport::nccl}};
const std::map<std::string, Transport> host_transports{{"local", Transport::local},
                                                       {"mpi", Transport::mpi}};
const std::map<std::string, ProbeChoice> probe_choices{{"random", ProbeChoice::random},
                                                       {"exact", ProbeChoice::exact},
                                                       {"both", ProbeChoice::both},
                                                       {"none", ProbeChoice::none}};
const std::map<std::string, Level> levels{
    {"smoke", Level::smoke}, {"ci", Level::ci}, {"full", Level::full}, {"soak", Level::soak}};

const std::map<std::string, bool> switches{{"on", true}, {"off", false}};

void add_common(CLI::App& command, Options& options) {
  command.add_option("--report", options.report, "where the JSON report goes")
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of synthetic experts and random layouts")
      ->transform(whole(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command.add_flag("--quiet", options.quiet, "print the verdict only");
}

void add_watch(CLI::App& command, Options& options) {
  command
      .add_option("--timeout", options.timeout, "seconds without progress after which a run ends")
      ->check(not_positive)
      ->capture_default_str();
  command.add_option("--deadline", options.deadline, "seconds for the whole run (default: none)")
      ->check(not_positive);
  command
      .add_option("--side-channel", options.side_channel,
                  "on or off: ranks talk over TCP when the transport is stuck (default: on)")
      ->transform(word_of(switches));
}

void add_ranks(CLI::App& command, Options& options, const std::string& transport_text) {
  command.add_option("--transport", options.transport, transport_text)
      ->transform(word_of(transports));
  add_watch(command, options);
  command.add_option("--ranks", options.ranks, "ranks of transport local (default 4)")
      ->transform(whole(1, 64));
  command.add_flag("--share-gpu", options.share_gpu,
                   "transport nccl: ranks may share a GPU, over loopback (development)");
}

void add_launch(CLI::App& command, Options& options) {
  add_ranks(command, options, "local, mpi or nccl (default: mpi under a launcher, else local)");
  command.add_option("--tp", options.tp, "ranks of a group (default: all)")
      ->transform(whole(1, 1 << 20));
}

void add_experts(CLI::App& command, Options& options) {
  ExpertOptions& experts = options.experts;
  const CLI::Validator width = whole(1, 1 << 20);
  command.add_option("--payload", experts.payload, "bytes, numeric or exact")
      ->check(CLI::IsMember({"bytes", "numeric", "exact"}));
  command.add_option("--experts", experts.experts, "E (default 2n)")->transform(width);
  command.add_option("--hidden", experts.hidden, "H (default 640)")->transform(width);
  command.add_option("--intermediate", experts.intermediate, "I (default 192n)")->transform(width);
  command.add_option("--model", experts.model, "E, H and I of a known model")
      ->check(CLI::IsMember(model_names()));
  command.add_option("--checkpoint", experts.checkpoint, "a checkpoint's folder")->check(empty);
  command.add_option("--layer", experts.layer, "which layer of the checkpoint")->check(empty);
}

void add_rel_l2_max(CLI::App& command, Options& options) {
  command.add_option("--rel-l2-max", options.probe.rel_l2_max, "in place of 3 floors")
      ->check(not_positive);
}

void add_probe(CLI::App& command, Options& options) {
  command.add_option("--probe", options.probe.choice, "random, exact, both or none")
      ->transform(word_of(probe_choices));
  command.add_option("--tokens", options.probe.tokens, "T of the probe")
      ->transform(whole(1, 1 << 16));
  command.add_option("--top-k", options.probe.top_k, "K of the probe")->transform(whole(1, 1024));
  add_rel_l2_max(command, options);
}

void add_reshard(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand(
      "reshard", "make or load stock experts, run an engine over the ranks, check every byte");
  add_common(command, options);
  add_launch(command, options);
  add_experts(command, options);
  add_probe(command, options);
  command.add_option("--engine", options.engine, "reference, collective, streamed or a name")
      ->capture_default_str();
  command.add_option("--repeat", options.repeat, "rounds, each with the next seed")
      ->transform(whole(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--seconds", options.seconds, "rounds for so long, each with the next seed")
      ->check(not_positive);
  command.add_option("--dump", options.dump, "write stock and tp here (absent or empty folder)")
      ->check(empty);
}

void add_bench(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand(
      "bench", "rates of the reshard and its parts against the limits measured in the same run");
  add_common(command, options);
  add_launch(command, options);
  add_experts(command, options);
  command.add_option("--level", options.level, "rounds: smoke 3, ci 15, full 50, soak 200")
      ->transform(word_of(levels));
}

void add_cluster(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand("cluster", "check a fresh cluster");
  add_common(command, options);
  add_ranks(command, options,
            "local or mpi: host memory; nccl: devices must be there (default: both that are)");
  command
      .add_option("--level", options.level,
                  "bytes of a block: smoke 2 MiB, ci 32 MiB, full 256 MiB, soak 512 MiB; of "
                  "devices 8 times")
      ->transform(word_of(levels));
  command.add_option("--checkpoint", options.experts.checkpoint, "audit this one too")
      ->check(empty);
}

void add_verify(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand("verify", "judge dump folders, one a layer");
  add_common(command, options);
  command.add_option("DUMP", options.paths, "slicecheck-dump/1 folders")->required();
  command
      .add_option("--transport", options.transport,
                  "local or mpi (default: mpi under a launcher, else local)")
      ->transform(word_of(host_transports));
  add_watch(command, options);
  command.add_option("--ranks", options.ranks, "ranks of transport local (default 1)")
      ->transform(whole(1, 64));
  command.add_option("--checkpoint", options.experts.checkpoint, "what the experts must be")
      ->check(empty);
  command
      .add_option("--layer", options.experts.layer,
                  "which layer of the checkpoint (default: the manifest's)")
      ->check(empty);
  add_rel_l2_max(command, options);
}

void add_audit(CLI::App& app, Options& options) {
  CLI::App& command =
      *app.add_subcommand("audit", "the scale contract of a checkpoint, layer by layer");
  add_common(command, options);
  add_launch(command, options);
  command.add_option("CKPT", options.paths, "a checkpoint's folder")->required()->expected(1);
  command
      .add_option("--layer", options.experts.layer, "a layer, or a range as 3-60 (default: all)")
      ->check(empty);
}

void add_mutants(CLI::App& app, Options& options) {
  CLI::App& command =
      *app.add_subcommand("mutants", "plant every known fault; each must be caught and named");
  add_common(command, options);
  add_launch(command, options);
  command
      .add_option("--level", options.level,
                  "smoke: some mutants; ci: the catalogue, 1000 healthy layouts; full: 20000")
      ->transform(word_of(levels));
}

void add_report(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand("report", "a report as a table");
  command.add_option("REPORT", options.paths, "a slicecheck-report/1 file");
  command
      .add_option("--from-journals", options.journals,
                  "merge what a run that died left in this folder, into --report")
      ->check(empty);
  command.add_option("--report", options.report, "where the merged report goes")
      ->capture_default_str();
  command.add_flag("--exit-code", options.exit_code, "end with the report's own exit code");
}

void add_properties(CLI::App& app, Options& options) {
  CLI::App& command =
      *app.add_subcommand("properties", "the laws on random layouts, over the ranks of the launch");
  add_common(command, options);
  add_launch(command, options);
  PropertyOptions& asked = options.properties;
  command.add_option("--level", options.level, "smoke, ci, full or soak")
      ->transform(word_of(levels));
  command.add_option("--cases", asked.cases, "random cases of each law (default: by level)")
      ->transform(whole(std::int64_t{1}, std::int64_t{1} << 40));
  command.add_option("--seconds", asked.seconds, "end after about as long")->check(not_positive);
  command.add_option("--law", asked.law, "one law, or the laws of a suite")->check(empty);
  command.add_option("--ranks-up-to", asked.ranks_up_to, "ranks of a case (default: the launch's)")
      ->transform(whole(2, 64));
}

void add_replay(CLI::App& app, Options& options) {
  CLI::App& command = *app.add_subcommand("replay", "run one saved case again");
  add_common(command, options);
  add_launch(command, options);
  command.add_option("CASE", options.paths, "a slicecheck-case/1 file")->required()->expected(1);
}

Reason contradiction(const Options& options) {
  const ExpertOptions& experts = options.experts;
  const bool widths = experts.hidden != 0 || experts.intermediate != 0;
  if (!experts.checkpoint.empty()) {
    const bool synthetic = widths || experts.experts != 0 || !experts.payload.empty();
    if (synthetic || !experts.model.empty()) {
      return Reason(
          "--checkpoint goes with none of --payload, --experts, --hidden, "
          "--intermediate, --model");
    }
    if (experts.layer.empty() && options.command == "reshard") {
      return Reason("--checkpoint needs --layer");
    }
  } else if (!experts.layer.empty() && options.command != "audit") {
    return Reason("--layer needs --checkpoint");
  }
  if (!experts.model.empty() && widths) {
    return Reason("--model goes with neither --hidden nor --intermediate");
  }
  const bool rounds = options.repeat > 0 || options.seconds > 0;
  if (!options.dump.empty() && rounds) {
    return Reason("--dump goes with neither --repeat nor --seconds");
  }
  if (!experts.checkpoint.empty() && rounds) {
    return Reason("--checkpoint has no seeds: it goes with neither --repeat nor --seconds");
  }
  if (options.command == "report" && options.paths.empty() == options.journals.empty()) {
    return Reason("report needs a REPORT or --from-journals, and not both");
  }
  if (options.ranks != 0 && options.transport != Transport::automatic &&
      options.transport != Transport::local) {
    return Reason("--ranks is for --transport local");
  }
  const bool both = options.command == "cluster" && options.transport == Transport::automatic;
  if (options.share_gpu && options.transport != Transport::nccl && !both) {
    return Reason("--share-gpu is for --transport nccl");
  }
  if (options.command == "bench" && !experts.checkpoint.empty()) {
    return Reason("bench takes synthetic experts: --checkpoint does not go with it");
  }
  return {};
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

Result<Options> parsed(int argc, const char* const* argv) {
  if (Reason reason = empty_behind_equals(argc, argv)) return reason;
  Options options;
  CLI::App app("Proves that resharded NVFP4 experts are the bytes they must be.", "slicecheck");
  app.set_version_flag("--version", "slicecheck " SLICECHECK_VERSION);
  app.require_subcommand(1);
  add_reshard(app, options);
  add_audit(app, options);
  add_bench(app, options);
  add_cluster(app, options);
  add_verify(app, options);
  add_properties(app, options);
  add_replay(app, options);
  add_mutants(app, options);
  add_report(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    options.text = app.help();
    return options;
  } catch (const CLI::CallForVersion&) {
    options.text = app.version() + "\n";
    return options;
  } catch (const CLI::ParseError& error) {
    return Reason(one_line(error.what()));
  }
  options.command = app.get_subcommands().front()->get_name();
  if (Reason reason = contradiction(options)) return reason;
  return options;
}

}  // namespace slicecheck::app
