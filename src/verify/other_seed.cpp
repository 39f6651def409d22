#include "verify/other_seed.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "verify/trace.h"

namespace slicecheck::verify {
namespace {

bool is_other(const WrongTensor& one) { return one.causes.has(Cause::payload_of_other_layer); }

std::set<std::uint64_t> seeds_of(const std::vector<WrongTensor>& wrong) {
  std::set<std::uint64_t> seeds;
  for (const WrongTensor& one : wrong) {
    if (is_other(one) && one.seed_known) seeds.insert(one.seed);
  }
  return seeds;
}

bool is_unknown(const WrongTensor& one) { return is_other(one) && !one.seed_known; }

// True where the scales of the other matrix at the same place are of the same unknown seed.
bool agreed_beside(const std::vector<WrongTensor>& wrong, const WrongTensor& one) {
  return std::any_of(wrong.begin(), wrong.end(), [&](const WrongTensor& other) {
    return is_unknown(other) && other.seed == one.seed && other.target.side == one.target.side &&
           other.target.rank == one.target.rank && other.target.expert == one.target.expert &&
           other.target.kind != one.target.kind;
  });
}

// A weight word gives its seed. Scales that no weight speaks for are of another seed only where all
// of an expert's are of the same: padding declared wrongly shifts their units by a constant, too.
void drop_unagreed(std::vector<WrongTensor>& wrong) {
  const std::vector<WrongTensor> before = wrong;
  for (WrongTensor& one : wrong) {
    if (!is_unknown(one) || agreed_beside(before, one)) continue;
    one.map = healthy_map(one.target);
    one.causes = Causes{};
    one.causes.add(Cause::unexplained);
    one.alternatives = Causes{};
    one.explained = 0;
    one.seed = 0;
    one.origin = {};
  }
}

}  // namespace

void name_seeds(const Subject& subject, std::vector<WrongTensor>& wrong) {
  if (!subject.payload) return;
  for (const std::uint64_t seed : seeds_of(wrong)) {
    const std::uint64_t rest = scale_key_rest(seed, subject.payload->kind);
    for (WrongTensor& one : wrong) {
      if (!is_other(one) || one.seed_known || one.seed != rest) continue;
      one.seed = seed;
      one.seed_known = true;
      one.origin.seed = seed;
      one.origin.has_seed = one.origin.found;
    }
  }
  drop_unagreed(wrong);
}

void name_seeds(const Subject& subject, const std::vector<WrongTensor>& wrong,
                std::vector<WrongScalar>& scalars) {
  const layout::Shape& shape = subject.layer.shape;
  const layout::Widths widths = subject.layer.data.value_or(layout::stock_widths(shape));
  for (const std::uint64_t seed : seeds_of(wrong)) {
    const experts::Scalars theirs = experts::payload_scalars(seed, 0, shape.experts, widths);
    for (WrongScalar& one : scalars) {
      if (one.expert < 0) continue;
      const auto scalar = static_cast<experts::Scalar>(static_cast<int>(one.name) -
                                                       static_cast<int>(ScalarName::g1_alphas));
      if (!same_bits(one.value, experts::values_of(theirs, scalar)[one.expert])) continue;
      one.flaw = Flaw::other_payload;
      one.seed = seed;
    }
  }
}

std::vector<WrongScalar> taken(std::vector<WrongScalar>& scalars, Side side, std::uint64_t seed,
                               const std::set<Place>& places) {
  std::vector<WrongScalar> made;
  for (const ScalarName name :
       {ScalarName::g1_alphas, ScalarName::g1_scale_c, ScalarName::g2_alphas}) {
    const auto theirs = [&](const WrongScalar& one) {
      return one.flaw == Flaw::other_payload && one.side == side && one.seed == seed &&
             one.name == name;
    };
    std::set<Place> mine;
    for (const WrongScalar& one : scalars) {
      if (theirs(one)) mine.insert({one.rank, one.expert});
    }
    if (mine != places) continue;
    std::copy_if(scalars.begin(), scalars.end(), std::back_inserter(made), theirs);
    std::erase_if(scalars, theirs);
  }
  return made;
}

// A layer's seed is the run's in all but its high half: what differs there alone is the layer.
std::string about_seed(const Subject& subject, std::uint64_t seed) {
  const std::uint64_t due = subject.payload ? subject.payload->seed : 0;
  const auto layer = static_cast<std::uint64_t>(subject.payload_layer);
  const std::uint64_t apart = seed ^ due;
  if (apart << 32 != 0) {
    return fmt::format("their seed is {}, another than {}, which is due", seed, due);
  }
  return fmt::format("their seed is {}, that is layer {} of seed {}, where layer {} is due", seed,
                     layer ^ (apart >> 32), layout::layer_seed(due, layer), layer);
}

}  // namespace slicecheck::verify
