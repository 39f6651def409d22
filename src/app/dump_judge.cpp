#include "app/dump_judge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/dump_reference.h"
#include "app/verdicts.h"
#include "verify/scalars.h"

namespace slicecheck::app {
namespace {

using layout::Kind;

/// Judges the ranks of one share with one reference.
class ShareJudge {
 public:
  ShareJudge(const DumpCase& dump, const Share& share, Progress& progress)
      : dump_(dump),
        share_(share),
        progress_(progress),
        ranks_(dump.ranks_of(share.group)),
        reference_(dump, share.group),
        judge_(reference_.experts()) {}

  Reason judge() { return judge_all().at_layer(dump_.layer, dump_.first_group + share_.group); }

  SharePart take() { return std::move(part_); }

 private:
  Reason judge_all() {
    const layout::Shape& shape = dump_.manifest.shape;
    for (const std::int64_t rank : share_.ranks) {
      if (!dump_.parts.stock) break;
      Reason reason = judge_stock(rank);
      if (reason) return reason;
    }
    if (!dump_.parts.tp || share_.ranks.empty()) return {};
    Reason reason = open_tp();
    // Expert by expert over all ranks: the whole expert is made once.
    for (std::int64_t expert = 0; expert < shape.experts && !reason; ++expert) {
      for (std::size_t i = 0; i < share_.ranks.size() && !reason; ++i) {
        reason = judge_tp(i, expert);
      }
      progress_.step(expert + 1, shape.experts);
    }
    return reason;
  }

  void count(Kind kind, std::int64_t bytes, std::int64_t differing) {
    report::Check check;
    check.id = fmt::format("bytes.{}", layout::name(kind));
    check.group = static_cast<int>(dump_.first_group + share_.group);
    check.layer = dump_.layer;
    check.status = differing == 0 ? report::Status::passed : report::Status::failed;
    check.compared = bytes;
    check.differing = differing;
    part_.report.checks.push_back(std::move(check));
  }

  Reason judge_stock(std::int64_t rank) {
    const Result<checkpoint::DumpStock> opened =
        checkpoint::DumpStock::open(dump_.folder, dump_.manifest, ranks_.at(rank));
    if (opened.reason) return opened.reason;
    if (reference_.stock_is_true()) return judge_true_stock(rank, *opened);
    const std::int64_t held = dump_.manifest.shape.experts_per_rank();
    for (std::int64_t local = 0; local < held; ++local) {
      for (const Kind kind : layout::kinds) {
        const Result<ByteVector> bytes = opened->bytes(kind, local);
        if (bytes.reason) return bytes.reason;
        const verify::Target target{verify::Side::stock, kind, rank, rank * held + local};
        verify::judge_tensor(judge_, target, *bytes, part_.evidence);
        if (reference_.reason()) return reference_.reason();
      }
    }
    for (const Kind kind : layout::kinds) {
      const layout::Matrix each = layout::matrix(kind, layout::stock_widths(dump_.manifest.shape));
      count(kind, held * each.bytes(), 0);
    }
    add_stock_scalars(rank, *opened);
    return {};
  }

  Reason judge_true_stock(std::int64_t rank, const checkpoint::DumpStock& opened) {
    const layout::Shape& shape = dump_.manifest.shape;
    experts::StockExperts stock;
    stock.first_expert = opened.first_expert();
    for (const Kind kind : {Kind::w13_sf, Kind::w2_sf}) {
      Tensor& tensor = experts::tensor_of(stock, kind);
      tensor = host_tensor(Dtype::f8_e4m3, experts::stock_extents(kind, shape));
      const MutableBytes all = host_bytes(tensor);
      const std::size_t each = all.size() / shape.experts_per_rank();
      for (std::int64_t local = 0; local < shape.experts_per_rank(); ++local) {
        const Result<ByteVector> bytes = opened.bytes(kind, local);
        if (bytes.reason) return bytes.reason;
        std::copy(bytes->begin(), bytes->end(), all.begin() + local * each);
      }
    }
    for (const experts::Scalar scalar : experts::all_scalars) {
      experts::tensor_of(stock, scalar) =
          host_floats(opened.scalars()[static_cast<std::size_t>(scalar)]);
    }
    stock.a1_gscale = host_floats({opened.a1_gscale()});
    stock.a2_gscale = host_floats({opened.a2_gscale()});
    verify::judge_true_stock(judge_, rank, stock, part_.evidence);
    return {};
  }

  void add_stock_scalars(std::int64_t rank, const checkpoint::DumpStock& opened) {
    verify::RankScalars scalars;
    scalars.rank = rank;
    scalars.first_expert = opened.first_expert();
    scalars.stock = opened.scalars();
    scalars.a1_gscale = {opened.a1_gscale()};
    scalars.a2_gscale = {opened.a2_gscale()};
    verify::join(part_.evidence, {{}, {}, {scalars}});
  }

  Reason open_tp() {
    const layout::Shape& shape = dump_.manifest.shape;
    for (const std::int64_t rank : share_.ranks) {
      Result<checkpoint::DumpTp> opened =
          checkpoint::DumpTp::open(dump_.folder, dump_.manifest, ranks_.at(rank));
      if (opened.reason) return opened.reason;
      verify::RankScalars scalars;
      scalars.rank = rank;
      scalars.tp = opened->scalars();
      verify::join(part_.evidence, {{}, {}, {scalars}});
      for (const Kind kind : layout::kinds) {
        const std::int64_t bytes =
            shape.experts * layout::matrix(kind, layout::tp_widths(shape)).bytes();
        count(kind, bytes, opened->otherwise_cut(kind) ? bytes : 0);
      }
      say_otherwise_cut(rank, *opened);
      tps_.push_back(std::move(*opened));
    }
    return {};
  }

  void say_otherwise_cut(std::int64_t rank, const checkpoint::DumpTp& opened) {
    report::Finding made;
    std::vector<std::string> texts;
    for (const Kind kind : layout::kinds) {
      if (!opened.otherwise_cut(kind)) continue;
      made.tensors.emplace_back(layout::name(kind));
      texts.push_back(fmt::format("{} is {}, expected {}", layout::name(kind), opened.extents(kind),
                                  text(experts::final_extents(kind, dump_.manifest.shape))));
    }
    if (texts.empty()) return;
    made.cause = "wrong-axis-cut";
    made.text = fmt::format("{}", fmt::join(texts, "; "));
    made.ranks = {ranks_.at(rank)};
    made.layer = dump_.layer;
    made.group = static_cast<int>(dump_.first_group + share_.group);
    part_.report.findings.push_back(std::move(made));
  }

  Reason judge_tp(std::size_t i, std::int64_t expert) {
    for (const Kind kind : layout::kinds) {
      if (tps_[i].otherwise_cut(kind)) continue;
      const Result<ByteVector> bytes = tps_[i].bytes(kind, expert);
      if (bytes.reason) return bytes.reason;
      const verify::Target target{verify::Side::tp, kind, share_.ranks[i], expert};
      verify::judge_tensor(judge_, target, *bytes, part_.evidence);
      if (reference_.reason()) return reference_.reason();
    }
    return {};
  }

  const DumpCase& dump_;
  const Share& share_;
  Progress& progress_;
  std::vector<int> ranks_;
  DumpReference reference_;
  verify::Judge judge_;
  std::vector<checkpoint::DumpTp> tps_;
  SharePart part_;
};

bool is_placement(std::string_view cause) {
  constexpr std::array<std::string_view, 6> causes{"placement-round-robin", "placement-permuted",
                                                   "not-linear-placement",  "expert-duplicated",
                                                   "expert-missing",        "rank-order"};
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
}

/// How bad it is that a tensor differs: as bad as the worst that is said of it. Of what nothing is
/// said it is an error: nothing wrong ends green.
report::Severity severity_of(std::string_view tensor,
                             const std::vector<report::Finding>& findings) {
  bool warned = false;
  for (const report::Finding& each : findings) {
    const bool meant = std::count(each.tensors.begin(), each.tensors.end(), tensor) > 0;
    if (meant && each.severity == report::Severity::error) return report::Severity::error;
    warned = warned || meant;
  }
  return warned ? report::Severity::warning : report::Severity::error;
}

/// The checks of a group, each passed until a finding says otherwise.
class Checks {
 public:
  Checks(const DumpCase& dump, std::int64_t group) : dump_(dump), group_(group) {}

  void add(const std::string& id, std::int64_t compared) {
    report::Check made;
    made.id = id;
    made.group = static_cast<int>(dump_.first_group + group_);
    made.layer = dump_.layer;
    made.status = report::Status::passed;
    made.compared = compared;
    all_.push_back(std::move(made));
  }

  void skip(const std::string& id, const std::string& why) {
    add(id, 0);
    all_.back().status = report::Status::skipped;
    all_.back().text = why;
  }

  void fail(const std::string& id, report::Severity severity, std::int64_t differing) {
    auto check = std::find_if(all_.begin(), all_.end(), [&](const auto& c) { return c.id == id; });
    if (check == all_.end()) {
      add(id, 0);
      check = all_.end() - 1;
    }
    check->differing += differing;
    if (severity == report::Severity::error) {
      check->status = report::Status::failed;
    } else if (check->status != report::Status::failed) {
      check->status = report::Status::warning;
    }
  }

  // What differs is counted, and never ends green for want of a finding.
  void count(const verify::WrongItems& items) {
    for (report::Check& check : all_) {
      const std::int64_t differing = items.of(check.id);
      if (differing == 0) continue;
      check.differing = differing;
      if (check.status == report::Status::passed) check.status = report::Status::failed;
    }
  }

  std::vector<report::Check> take() { return std::move(all_); }

 private:
  const DumpCase& dump_;
  std::int64_t group_;
  std::vector<report::Check> all_;
};

void add_checks(const DumpCase& dump, Checks& checks) {
  const layout::Shape& shape = dump.manifest.shape;
  checks.add("shape", (dump.parts.stock ? 9 * shape.tp : 0) + (dump.parts.tp ? 7 * shape.tp : 0));
  if (dump.parts.stock) {
    checks.add("placement", shape.experts);
    checks.add("scales.global", 2 * shape.tp);
    checks.add("scales.relation", shape.experts);
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    if (!dump.parts.tp) break;
    checks.add(fmt::format("scalars.{}", experts::name(scalar)), shape.experts * shape.tp);
  }
  const std::optional<layout::Payload> payload = dump.payload();
  if (payload && payload->kind == layout::PayloadKind::bytes) {
    checks.skip("scales.block", "payload bytes has every byte value as a scale");
  } else {
    const std::int64_t sides = (dump.parts.stock ? 1 : 0) + (dump.parts.tp ? 1 : 0);
    checks.add("scales.block",
               sides * 3 * shape.experts * shape.hidden * shape.intermediate / layout::sf_vec);
  }
  if (dump.parts.stock && !dump.parts.tp && !dump.has_reference()) {
    for (const Kind kind : layout::kinds) {
      checks.skip(fmt::format("bytes.{}", layout::name(kind)),
                  "neither payload nor checkpoint says what the stock must be");
    }
  }
}

}  // namespace

std::vector<Share> shares_of(const std::vector<DumpCase>& dumps, int rank, int size) {
  std::vector<Share> made;
  std::int64_t dealt = 0;
  for (std::size_t dump = 0; dump < dumps.size(); ++dump) {
    for (std::int64_t group = 0; group < dumps[dump].groups(); ++group) {
      Share& share = made.emplace_back(Share{dump, group, {}});
      for (std::int64_t r = 0; r < dumps[dump].manifest.shape.tp; ++r) {
        if (dealt++ % size == rank) share.ranks.push_back(r);
      }
    }
  }
  return made;
}

Result<SharePart> judged_share(const DumpCase& dump, const Share& share, Progress& progress) {
  ShareJudge judge(dump, share, progress);
  Reason reason = judge.judge();
  if (reason) return reason;
  return judge.take();
}

report::Report judged_group(const DumpCase& dump, std::int64_t group,
                            const verify::Evidence& evidence,
                            const std::optional<verify::DueScalars>& due,
                            const std::function<void()>& moved) {
  const verify::Subject subject{dump.shape(),
                                dump.ranks_of(group),
                                static_cast<int>(dump.first_group + group),
                                dump.layer,
                                dump.payload(),
                                due,
                                dump.manifest.layer.value_or(0),
                                moved};
  report::Report made;
  verify::Judgement judged = verify::judgement(subject, evidence);
  made.findings = std::move(judged.findings);
  Checks checks(dump, group);
  add_checks(dump, checks);
  for (const report::Finding& finding : made.findings) {
    if (verify::refuses(finding)) made.verdict = report::Verdict::refused;
    if (is_placement(finding.cause)) checks.fail("placement", finding.severity, 1);
    for (const std::string& tensor : finding.tensors) {
      checks.fail(check_failed_by(finding, tensor), finding.severity, 0);
    }
  }
  for (const verify::WrongTensor& wrong : evidence.wrong) {
    if (wrong.differing == 0) continue;
    const std::string_view tensor = layout::name(wrong.target.kind);
    checks.fail(fmt::format("bytes.{}", tensor), severity_of(tensor, made.findings),
                wrong.differing);
  }
  checks.count(judged.items);
  made.checks = checks.take();
  return made;
}

}  // namespace slicecheck::app
