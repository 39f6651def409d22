#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "app/command.h"
#include "app/device.h"
#include "app/judge.h"
#include "app/series.h"
#include "app/source.h"
#include "group/agree.h"
#include "group/shared.h"
#include "reshard/reshard.h"

namespace slicecheck::app {
namespace {

using layout::Kind;

constexpr std::string_view refusal = "cannot run the bench";
constexpr int warm_up = 2;

int rounds_of(Level level) {
  switch (level) {
    case Level::smoke:
      return 3;
    case Level::ci:
      return 15;
    case Level::full:
      return 50;
    case Level::soak:
      break;
  }
  return 200;
}

/// The engines that are timed: the seed's exchange, and the one that packs while it exchanges.
struct Exchange {
  std::string_view name;  // in bench.NAME
  std::string_view engine;
};
constexpr std::array<Exchange, 2> exchanges{{{"reshard", "collective"}, {"streamed", "streamed"}}};

/// One thing that is timed: `bytes` are what a rate counts, `run` may bring its own milliseconds.
struct Operation {
  std::string name;
  std::int64_t bytes = 0;
  std::function<std::optional<double>()> run;
  std::vector<double> milliseconds;  // of the slowest rank, one a round
};

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576.0; }

/// The slowest rank's time. Collective.
double slowest(group::Group& group, double mine) {
  return std::ranges::max(group::shared(group, mine));
}

/// The tensors of a run: the stock, what a reshard made of it, and room to move one kind at a time.
struct Buffers {
  experts::StockExperts stock;
  experts::TpExperts tp;
  std::shared_ptr<std::uint8_t> packed;
  std::shared_ptr<std::uint8_t> received;

  std::uint8_t* of(Kind kind) const { return experts::tensor_of(stock, kind).data.get(); }
  std::int64_t bytes(Kind kind) const { return experts::tensor_of(stock, kind).bytes(); }
  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const Kind kind : layout::kinds) sum += bytes(kind);
    return sum;
  }
  std::int64_t largest() const { return bytes(Kind::w13); }
};

class Bench {
 public:
  Bench(Context& context, const Source& source)
      : context_(context),
        group_(context.group),
        space_(group_.space()),
        source_(source),
        watch_(group_) {}

  /// The part of this rank. Collective over the group.
  report::Report run();

 private:
  experts::TpExperts run(const engine::Engine& engine);
  void judge(const engine::Engine& engine, report::Report& into);
  Reason make_room();
  void add_operations();
  void add(std::string name, std::int64_t bytes, std::function<void(Kind)> each);
  void add_pack();
  void measure();
  double median(std::string_view name) const;
  report::Check check_of(const Operation& operation) const;
  double bound(std::string_view name) const;
  void add_bound(report::Check& check, std::string_view name) const;
  report::Check memory_check() const;

  Context& context_;
  group::Group& group_;
  memory::Space& space_;
  const Source& source_;
  Stopwatch watch_;
  Buffers buffers_;
  std::vector<Operation> operations_;
  std::vector<std::int64_t> transient_bytes_;  // of each engine, on a device
  std::int64_t peak_bytes_ = 0;                // after the first, on the host
};

// One reshard of each engine is made and judged before anything else is allocated: what is timed is
// right, and the memory that it took is its own.
void Bench::judge(const engine::Engine& engine, report::Report& into) {
  memory::DeviceSpace* const device = device_of(group_);
  buffers_.tp = {};
  if (device != nullptr) device->peak_bytes();
  buffers_.tp = run(engine);
  if (device != nullptr) {
    transient_bytes_.push_back(device->peak_bytes() - 2 * buffers_.all());
  } else if (peak_bytes_ == 0) {
    peak_bytes_ = peak_rss_bytes();
  }
  const JudgedRank judged{buffers_.stock, buffers_.tp, group_.rank(), context_.group_number};
  Result<Compared> found = compared(judged, source_, space_, context_.progress);
  group::refuse_together(group_, found.reason, refusal);
  std::ranges::move(found->checks, std::back_inserter(into.checks));
  for (report::Finding& finding : named(context_, source_, found->evidence).findings) {
    finding.text = fmt::format("{}: {}", engine.name, finding.text);
    into.findings.push_back(std::move(finding));
  }
}

experts::TpExperts Bench::run(const engine::Engine& engine) {
  return engine.run({buffers_.stock, source_.shape.experts, source_.plain_slice, source_.scalars},
                    group_);
}

Reason Bench::make_room() {
  for (std::shared_ptr<std::uint8_t>* room : {&buffers_.packed, &buffers_.received}) {
    auto made = space_.allocate(buffers_.largest(), "room for one kind");
    if (made.reason) return made.reason;
    *room = *made;
    space_.fill(room->get(), 1, buffers_.largest());
  }
  return {};
}

void Bench::add(std::string name, std::int64_t bytes, std::function<void(Kind)> each) {
  operations_.push_back({std::move(name),
                         bytes,
                         [each = std::move(each)]() -> std::optional<double> {
                           for (const Kind kind : layout::kinds) each(kind);
                           return {};
                         },
                         {}});
}

void Bench::add_pack() {
  const auto pack = [this](Kind kind) {
    space_.pack(buffers_.packed.get(), buffers_.of(kind), kind, source_.shape);
  };
  for (const Kind kind : layout::kinds) {
    operations_.push_back({fmt::format("pack.{}", layout::name(kind)),
                           2 * buffers_.bytes(kind),
                           [=]() -> std::optional<double> {
                             pack(kind);
                             return {};
                           },
                           {}});
  }
  add("pack", 2 * buffers_.all(), pack);
}

void Bench::add_operations() {
  const layout::Shape& shape = source_.shape;
  add("copy", 2 * buffers_.all(), [this](Kind kind) {
    space_.copy(buffers_.packed.get(), buffers_.of(kind), buffers_.bytes(kind));
  });
  add_pack();
  add("convert", 2 * buffers_.all(), [&, this](Kind kind) {
    std::uint8_t* const from = buffers_.of(kind);
    space_.convert(buffers_.packed.get(), kind, layout::stock_widths(shape),
                   {from, from + buffers_.bytes(kind) / 2, from}, shape.experts_per_rank());
  });
  operations_.push_back({"verify",
                         buffers_.all(),
                         [&, this]() -> std::optional<double> {
                           memory::DeviceSpace* const device = device_of(group_);
                           double sum = 0;
                           for (const Kind kind : layout::kinds) {
                             space_.compare_payload(
                                 experts::tensor_of(buffers_.tp, kind).data.get(),
                                 {*source_.payload, kind, layout::stock_widths(shape), shape.tp,
                                  group_.rank(), 0, shape.experts});
                             if (device != nullptr) sum += device->comparison_milliseconds();
                           }
                           return device == nullptr ? std::nullopt : std::optional<double>(sum);
                         },
                         {}});
  add("all_to_all", buffers_.all(), [this](Kind kind) {
    group_.all_to_all(buffers_.received.get(), buffers_.packed.get(),
                      buffers_.bytes(kind) / group_.size());
  });
  for (const Exchange& exchange : exchanges) {
    operations_.push_back({std::string(exchange.name),
                           buffers_.all(),
                           [this, engine = *context_.engines(exchange.engine)] {
                             run(engine);
                             return std::optional<double>();
                           },
                           {}});
  }
}

// Interleaved: a round runs each once, and all ranks start each together.
void Bench::measure() {
  const int rounds = rounds_of(context_.options.level);
  for (int round = -warm_up; round < rounds; ++round) {
    for (Operation& operation : operations_) {
      space_.synchronise();
      group_.least(0);
      watch_.start();
      const std::optional<double> own = operation.run();
      const double mine = watch_.stop();
      const double time = slowest(group_, own.value_or(mine));
      if (round >= 0) operation.milliseconds.push_back(time);
    }
    context_.progress.step(round + warm_up + 1, rounds + warm_up);
  }
}

double Bench::median(std::string_view name) const {
  const auto at = std::find_if(operations_.begin(), operations_.end(),
                               [&](const Operation& operation) { return operation.name == name; });
  return series_of(at->milliseconds).median;
}

report::Check Bench::check_of(const Operation& operation) const {
  const Series series = series_of(operation.milliseconds);
  const double copied = 2e-6 * static_cast<double>(buffers_.all()) / median("copy");
  const double rate = 1e-6 * static_cast<double>(operation.bytes) / series.median;
  report::Check made;
  made.id = "bench." + operation.name;
  made.group = context_.group_number;
  made.status = report::Status::passed;
  made.compared = operation.bytes;
  made.text = fmt::format("{:9.3f} ms, {:6.1f} GB/s, {:4.2f} of the copy", series.median, rate,
                          rate / copied);
  made.figures = {{"median_ms", series.median},
                  {"p95_ms", series.p95},
                  {"variation", series.variation},
                  {"rounds", static_cast<std::int64_t>(operation.milliseconds.size())},
                  {"gb_per_s", rate},
                  {"of_the_copy", rate / copied}};
  if (operation.name == "all_to_all") {
    const double share = static_cast<double>(group_.size() - 1) / group_.size();
    made.figures.emplace_back("bus_gb_per_s", rate * share);
    made.text += fmt::format(", bus {:.1f} GB/s", rate * share);
  }
  if (operation.name == "reshard" || operation.name == "streamed") add_bound(made, operation.name);
  return made;
}

// On a device: the raw exchange of the same bytes and 1.1 times the pack at the copy's rate; where
// the pack runs beside the exchange, 1.1 times the raw exchange. On the host nothing runs beside:
// 1.1 times the exchange and the pack.
double Bench::bound(std::string_view name) const {
  const double raw = median("all_to_all");
  if (device_of(group_) == nullptr) return 1.1 * (raw + median("pack"));
  return name == "streamed" ? 1.1 * raw : raw + 1.1 * median("copy");
}

void Bench::add_bound(report::Check& check, std::string_view name) const {
  const double mine = median(name);
  const double most = bound(name);
  const double raw = median("all_to_all");
  check.figures.emplace_back("bound_ms", most);
  check.figures.emplace_back("of_the_bound", mine / most);
  check.figures.emplace_back("of_the_all_to_all", mine / raw);
  check.text += fmt::format(", bound {:.3f} ms: {:.2f} of it, {:.2f} of the all-to-all", most,
                            mine / most, mine / raw);
}

report::Check Bench::memory_check() const {
  report::Check made;
  made.id = "bench.memory";
  made.group = context_.group_number;
  made.status = report::Status::passed;
  made.compared = 2 * buffers_.all();
  made.figures = {{"stock_and_result_bytes", 2 * buffers_.all()},
                  {"largest_kind_bytes", buffers_.largest()}};
  if (device_of(group_) != nullptr) {
    made.figures.emplace_back("transient_bytes", transient_bytes_.front());
    made.figures.emplace_back("streamed_transient_bytes", transient_bytes_.back());
    made.text =
        fmt::format("transient {:.1f} MiB, streamed {:.1f} MiB, the largest kind {:.1f} MiB",
                    mebibytes(transient_bytes_.front()), mebibytes(transient_bytes_.back()),
                    mebibytes(buffers_.largest()));
  } else {
    made.figures.emplace_back("peak_rss_bytes", peak_bytes_);
    made.text =
        fmt::format("peak {:.1f} MiB of the process, stock + result + largest kind {:.1f} MiB",
                    mebibytes(peak_bytes_), mebibytes(2 * buffers_.all() + buffers_.largest()));
  }
  return made;
}

report::Report Bench::run() {
  context_.progress.phase("stock");
  Result<experts::StockExperts> stock = stock_of(source_, group_.rank(), space_);
  group::refuse_together(group_, stock.reason, refusal);
  buffers_.stock = std::move(*stock);
  report::Report mine;
  for (const Exchange& exchange : exchanges) {
    context_.progress.phase(fmt::format("first {}", exchange.name));
    judge(*context_.engines(exchange.engine), mine);
  }
  group::refuse_together(group_, make_room(), refusal);
  add_operations();
  context_.progress.phase("measure");
  measure();
  if (group_.rank() == 0) {
    for (const Operation& operation : operations_) mine.checks.push_back(check_of(operation));
    mine.checks.push_back(memory_check());
  }
  mine.ranks = {{context_.world.rank(),
                 context_.group_number,
                 context_.place.host,
                 device_text(group_),
                 buffers_.stock.first_expert,
                 {}}};
  return mine;
}

report::Fields case_of(const Context& context, const Source& source) {
  const layout::Shape& shape = source.shape;
  return {{"experts", shape.experts},
          {"hidden", shape.hidden},
          {"intermediate", shape.intermediate},
          {"tp", shape.tp},
          {"slice", shape.slice()},
          {"engine", std::string("collective, streamed")},
          {"transport", std::string(context.group.name())},
          {"payload", source.name},
          {"seed", context.options.seed}};
}

/// qwen3-30b where no shape is given.
Options shaped(Options options) {
  ExpertOptions& experts = options.experts;
  const bool given = experts.hidden != 0 || experts.intermediate != 0 || experts.experts != 0;
  if (experts.model.empty() && !given) experts.model = "qwen3-30b";
  return options;
}

}  // namespace

report::Report bench_command(Context& context) {
  Result<Source> source = source_of(shaped(context.options), context.group.size());
  group::refuse_together(context.world, source.reason, refusal);
  Reason uncut = layout::unsupported(source->shape);
  if (!uncut) uncut = unshared(source->shape);
  group::refuse_together(context.world, uncut, reshard::refusal);
  report::Report mine = Bench(context, *source).run();
  mine.run_case = case_of(context, *source);
  return mine;
}

}  // namespace slicecheck::app
