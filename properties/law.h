// A law is one sentence with the code that finds where it is broken. What a law is about - the
// maps, the moves, the cut - comes as a Subject, so that a test can put a wrong copy in the place
// of any of them and see which law catches it; the program itself knows the one right subject.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/dump.h"
#include "experts/convert.h"
#include "experts/payload.h"
#include "experts/place.h"
#include "group/agree.h"
#include "layout/place.h"
#include "moe/op.h"
#include "properties/generators/draw.h"
#include "report/report.h"
#include "reshard/probe.h"
#include "reshard/reshard.h"
#include "verify/name.h"

namespace slicecheck::properties {

/// The group's own moves as functions, so that they can stand in a Subject.
inline void all_to_all_of(group::Group& group, std::uint8_t* received, const std::uint8_t* sent,
                          std::int64_t block_bytes) {
  group.all_to_all(received, sent, block_bytes);
}
inline void all_gather_of(group::Group& group, std::uint8_t* received, const std::uint8_t* sent,
                          std::int64_t block_bytes) {
  group.all_gather(received, sent, block_bytes);
}

/// A layer of a checkpoint folder.
struct CheckpointLayer {
  std::string folder;
  std::int64_t layer = 0;
};

/// The functions that the laws are about.
struct Subject {
  std::int64_t (*shuffle_source)(std::int64_t) = layout::shuffle_source;
  std::int64_t (*shuffle_dest)(std::int64_t) = layout::shuffle_dest;
  layout::PlainRow (*w13_source)(std::int64_t) = layout::w13_source;
  std::int64_t (*w13_dest)(const layout::PlainRow&) = layout::w13_dest;
  std::int64_t (*sf_offset)(std::int64_t, std::int64_t, std::int64_t) = layout::sf_offset;
  layout::SfPlace (*sf_source)(std::int64_t, std::int64_t) = layout::sf_source;
  layout::Cut (*cut)(layout::Kind, const layout::Shape&) = layout::cut;
  layout::PlainPlace (*plain_place)(layout::Kind, std::int64_t,
                                    const layout::Widths&) = layout::plain_place;
  std::int64_t (*converted_offset)(const layout::PlainPlace&,
                                   const layout::Widths&) = layout::converted_offset;
  layout::PlainPlace (*whole_place)(const layout::PlainPlace&, std::int64_t,
                                    std::int64_t) = layout::whole_place;
  experts::ConvertedExpert (*converted)(const experts::PlainExpert&) = experts::converted;
  experts::PlainExpert (*unconverted)(const experts::ConvertedExpert&) = experts::unconverted;
  experts::PlainExpert (*plain_slice)(const experts::PlainExpert&, std::int64_t,
                                      std::int64_t) = experts::slice;
  experts::ConvertedExpert (*converted_slice)(const experts::ConvertedExpert&, std::int64_t,
                                              std::int64_t) = experts::slice;
  experts::ConvertedExpert (*placed_slice)(const experts::PlainExpert&, std::int64_t,
                                           std::int64_t) = experts::placed_slice;
  experts::TpExperts (*reshard)(const experts::StockExperts&, group::Group&,
                                std::int64_t) = reshard::reshard_nvfp4;
  experts::TpExperts (*streamed)(const experts::StockExperts&, group::Group&,
                                 std::int64_t) = reshard::streamed_nvfp4;
  void (*decode_row)(const moe::CodeMatrix&, std::int64_t, std::span<float>) = moe::decode_row;
  moe::Quantised (*quantised)(const std::vector<float>&, std::int64_t, float) = moe::quantised;
  moe::Routing (*covering)(const moe::RoutingPlan&) = moe::covering;
  moe::Routing (*skewed)(const moe::RoutingPlan&) = moe::skewed;
  moe::Routing (*without)(const moe::RoutingPlan&, std::int64_t, std::int64_t) = moe::without;
  moe::PermutedRows (*fused_rows)(const moe::OpExperts&, std::int64_t, const moe::Quantised&,
                                  const moe::Routing&, const moe::Placement&) = moe::fused_rows;
  moe::RouteRows (*route_rows)(const moe::PermutedRows&) = moe::route_rows;
  reshard::RouteNorms (*norms_of)(const std::vector<reshard::RankRow>&,
                                  std::int64_t) = reshard::norms_of;
  double (*probe_rel_l2)(group::Group&, const reshard::ProbeRows&) = reshard::probe_rel_l2;
  group::Agreed (*agree)(group::Group&, const Reason&) = group::agree;
  void (*all_to_all)(group::Group&, std::uint8_t*, const std::uint8_t*,
                     std::int64_t) = all_to_all_of;
  void (*all_gather)(group::Group&, std::uint8_t*, const std::uint8_t*,
                     std::int64_t) = all_gather_of;
  std::vector<report::Finding> (*findings)(const verify::Subject&,
                                           const verify::Evidence&) = verify::findings;
  Reason (*write_tp)(const std::string&, std::int64_t,
                     const experts::TpExperts&) = checkpoint::write_tp;
  std::string (*report_json)(const report::Report&) = report::json;

  // What the commands do with files; they lie above the laws, so whoever tries laws says them.

  /// What `verify` says of a dump folder, judged by one process.
  Result<report::Report> (*verified)(const std::string& folder) = nullptr;
  /// The stock that `reshard` makes of a checkpoint on a rank of `tp`.
  Result<experts::StockExperts> (*loaded)(const CheckpointLayer& layer, int tp, int rank) = nullptr;
};

/// One law: where a case breaks it, or nothing. One of the two ways is set.
struct Law {
  std::string_view name;  // "Suite.sentence", as the headers' `Law:` lines have it
  Draw draw = Draw::valid;
  std::vector<Dimension> varies;

  /// A law that one process can judge.
  Reason (*broken)(const Case&, const Subject&) = nullptr;

  /// A law of ranks together: what this rank of case.shape.tp found. Collective over the group; no
  /// rank leaves alone, and the verdict of all is agreed by who calls.
  Reason (*broken_together)(const Case&, const Subject&, group::Group&) = nullptr;

  /// Of the cases of a level: less than all where each takes long.
  std::int64_t cases_percent = 100;
};

/// The laws of each room, and all of them.
std::vector<Law> layout_laws();
std::vector<Law> experts_laws();
std::vector<Law> group_laws();
std::vector<Law> reshard_laws();
std::vector<Law> moe_laws();
std::vector<Law> probe_laws();
std::vector<Law> fault_laws();
std::vector<Law> file_laws();
std::vector<Law> report_laws();
std::vector<Law> laws();

}  // namespace slicecheck::properties
