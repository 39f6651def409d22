#include <algorithm>

#include "app/subject.h"
#include "properties/planted.h"

namespace slicecheck::properties {
namespace {

using experts::StockExperts;
using report::Finding;

Result<StockExperts> loaded(const CheckpointLayer& layer, int tp, int rank) {
  return app::with_commands(Subject()).loaded(layer, tp, rank);
}

Result<StockExperts> the_next_rank_s(const CheckpointLayer& layer, int tp, int rank) {
  Result<StockExperts> made = loaded(layer, tp, (rank + 1) % tp);
  if (!made.reason) made->first_expert = rank * made->w13.extents[0];
  return made;
}

Result<StockExperts> the_first_rank_s_scalars(const CheckpointLayer& layer, int tp, int rank) {
  Result<StockExperts> made = loaded(layer, tp, rank);
  const Result<StockExperts> first = loaded(layer, tp, 0);
  if (!made.reason && !first.reason) made->g2_alphas = first->g2_alphas;
  return made;
}

Result<StockExperts> global_scales_as_divisors(const CheckpointLayer& layer, int tp, int rank) {
  Result<StockExperts> made = loaded(layer, tp, rank);
  if (!made.reason) made->a1_gscale = host_floats({1.0F / floats(made->a1_gscale)[0]});
  return made;
}

Reason a_bit_flipped(const std::string& folder, std::int64_t rank, const experts::TpExperts& tp) {
  experts::TpExperts other = tp;
  other.w2_sf = host_tensor(tp.w2_sf.dtype, tp.w2_sf.extents);
  const Bytes from = host_bytes(tp.w2_sf);
  std::copy(from.begin(), from.end(), host_bytes(other.w2_sf).begin());
  host_bytes(other.w2_sf).back() ^= 1;
  return checkpoint::write_tp(folder, rank, other);
}

Reason scalars_from_the_end(const std::string& folder, std::int64_t rank,
                            const experts::TpExperts& tp) {
  std::vector<float> alphas = floats(tp.g1_alphas);
  std::reverse(alphas.begin(), alphas.end());
  experts::TpExperts other = tp;
  other.g1_alphas = host_floats(alphas);
  return checkpoint::write_tp(folder, rank, other);
}

using Findings = std::vector<Finding>;

template <void (*changed)(Finding&)>
Findings each(const verify::Subject& subject, const verify::Evidence& evidence) {
  Findings made = verify::findings(subject, evidence);
  for (Finding& one : made) changed(one);
  return made;
}

void of_all_experts(Finding& finding) { finding.experts.clear(); }
void of_the_first_rank(Finding& finding) { finding.ranks = {0}; }
void unexplained(Finding& finding) {
  finding.cause = "unexplained";
  finding.also_possible.clear();
}

Findings scales_not_looked_at(const verify::Subject& subject, const verify::Evidence& evidence) {
  Findings made = verify::findings(subject, evidence);
  std::erase_if(made, [](const Finding& one) {
    return std::count(one.tensors.begin(), one.tensors.end(), "w2_sf") > 0;
  });
  return made;
}

Findings linear_taken_for_granted(const verify::Subject& subject,
                                  const verify::Evidence& evidence) {
  Findings made = verify::findings(subject, evidence);
  std::erase_if(made, [](const Finding& one) { return one.cause == "not-linear-placement"; });
  return made;
}

std::string experts_left_out(const report::Report& from) {
  report::Report made = from;
  for (Finding& finding : made.findings) finding.experts.clear();
  return report::json(made);
}

std::string shares_in_percent(const report::Report& from) {
  report::Report made = from;
  for (Finding& finding : made.findings) finding.explained *= 100;
  return report::json(made);
}

template <typename Function>
Planted planted(std::string name, std::string law, Function Subject::*place, Function wrong) {
  Planted made{std::move(name), std::move(law), Subject()};
  made.subject.*place = wrong;
  return made;
}

}  // namespace

std::vector<Planted> planted_files() {
  const std::string checkpoint = "Checkpoint.any_format_gives_the_same_stock";
  const std::string dump = "Dump.what_was_resharded_verifies";
  const std::string fault = "Verify.a_fault_is_found_where_it_was_planted";
  const std::string placement = "Verify.a_placement_is_named";
  const std::string report = "Report.fits_its_schema_and_comes_back_as_it_was";
  return {
      planted("the next rank's experts loaded", checkpoint, &Subject::loaded, the_next_rank_s),
      planted("the first rank's scalars loaded", checkpoint, &Subject::loaded,
              the_first_rank_s_scalars),
      planted("global scales as divisors", checkpoint, &Subject::loaded, global_scales_as_divisors),
      planted("a bit flipped on the way into a dump", dump, &Subject::write_tp, a_bit_flipped),
      planted("scalars dumped from the end", dump, &Subject::write_tp, scalars_from_the_end),
      planted("faults said of all experts", fault, &Subject::findings, each<of_all_experts>),
      planted("faults said of the first rank", fault, &Subject::findings, each<of_the_first_rank>),
      planted("every fault unexplained", fault, &Subject::findings, each<unexplained>),
      planted("scales not looked at", fault, &Subject::findings, scales_not_looked_at),
      planted("every placement unexplained", placement, &Subject::findings, each<unexplained>),
      planted("a linear placement taken for granted", placement, &Subject::findings,
              linear_taken_for_granted),
      planted("experts left out of the report", report, &Subject::report_json, experts_left_out),
      planted("shares in percent", report, &Subject::report_json, shares_in_percent),
  };
}

}  // namespace slicecheck::properties
