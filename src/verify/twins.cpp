#include "verify/twins.h"

#include <algorithm>
#include <map>

namespace slicecheck::verify {
namespace {

bool is_twin(const WrongTensor& one) {
  return one.target.side == Side::tp && one.twin >= 0 && one.causes.has(Cause::unexplained);
}

// The stock's tensor that all ranks' tp tensors speak against.
WrongTensor of_stock(const layout::Shape& shape, const std::vector<const WrongTensor*>& ranks) {
  const WrongTensor& front = *ranks.front();
  WrongTensor made = front;
  made.target.side = Side::stock;
  made.target.rank = front.target.expert / shape.experts_per_rank();
  made.map = healthy_map(made.target);
  made.map.expert = front.twin;
  made.causes = Causes{};
  made.causes.add(Cause::placement_permuted);
  made.bytes = 0;
  made.differing = 0;
  for (const WrongTensor* one : ranks) {
    made.bytes += one->bytes;
    made.differing += one->differing;
  }
  made.explained = made.differing;
  const layout::Cut cut = layout::cut(front.target.kind, shape);
  made.first = cut.whole_offset(front.target.rank, front.first);
  made.last = cut.whole_offset(ranks.back()->target.rank, ranks.back()->last);
  std::swap(made.want, made.got);
  made.origin = {};
  return made;
}

}  // namespace

void name_twins(const Subject& subject, std::vector<WrongTensor>& wrong) {
  std::map<std::pair<layout::Kind, std::int64_t>, std::vector<const WrongTensor*>> tensors;
  for (const WrongTensor& one : wrong) {
    if (is_twin(one)) tensors[{one.target.kind, one.target.expert}].push_back(&one);
  }
  std::vector<WrongTensor> stocks;
  for (const auto& [tensor, ranks] : tensors) {
    const auto as_the_first = [&ranks = ranks](const WrongTensor* one) {
      return one->twin == ranks.front()->twin;
    };
    const bool all = static_cast<std::int64_t>(ranks.size()) == subject.layer.shape.tp &&
                     std::all_of(ranks.begin(), ranks.end(), as_the_first);
    if (all) stocks.push_back(of_stock(subject.layer.shape, ranks));
  }
  for (const WrongTensor& stock : stocks) {
    std::erase_if(wrong, [&](const WrongTensor& one) {
      return is_twin(one) && one.target.kind == stock.target.kind &&
             one.target.expert == stock.target.expert;
    });
  }
  wrong.insert(wrong.end(), stocks.begin(), stocks.end());
}

}  // namespace slicecheck::verify
