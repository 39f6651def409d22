#include "app/refusal_mutants.h"

#include <fmt/format.h>

#include <cmath>

#include "app/verdicts.h"
#include "experts/payload.h"
#include "group/local/local_group.h"
#include "reshard/reshard.h"

namespace slicecheck::app {
namespace {

using experts::Scalar;
using experts::StockExperts;
using layout::Kind;
using Stocks = std::vector<StockExperts>;

constexpr layout::Shape shape{6, 128, 192, 3};
constexpr layout::Payload payload{layout::PayloadKind::numeric, 1, 0};

/// Tensors of another shape on every rank, without a byte: extents are judged before data.
void reshape(Stocks& stocks, const layout::Shape& other) {
  for (StockExperts& stock : stocks) {
    for (const Kind kind : layout::kinds) {
      Tensor& tensor = experts::tensor_of(stock, kind);
      tensor.extents = experts::stock_extents(kind, other);
      tensor.data = nullptr;
    }
  }
}

class Catalogue {
 public:
  std::vector<RefusalMutant> made() {
    add_types();
    add_widths();
    add_placement();
    add_scales();
    return std::move(made_);
  }

 private:
  void add(std::string_view fault, std::string pattern, std::vector<int> ranks,
           std::function<void(Stocks&)> plant) {
    RefusalMutant mutant;
    mutant.fault = fault;
    mutant.pattern = std::move(pattern);
    mutant.plant = std::move(plant);
    mutant.due.cause = fault;
    mutant.due.side = report::Side::stock;
    mutant.due.ranks = std::move(ranks);
    made_.push_back(std::move(mutant));
  }

  void add_types() {
    for (const Kind kind : layout::kinds) {
      const auto change = [&](std::string_view what, auto how) {
        add("shape-unsupported", fmt::format("{} {}", layout::name(kind), what), {1},
            [kind, how](Stocks& stocks) { how(experts::tensor_of(stocks[1], kind)); });
      };
      change("of another type", [](Tensor& tensor) { tensor.dtype = Dtype::i32; });
      change("with strides", [](Tensor& tensor) {
        tensor.strides = {tensor.extents[1] * tensor.extents[2], 1, tensor.extents[1]};
      });
      change("without data", [](Tensor& tensor) { tensor.data = nullptr; });
      if (kind == Kind::w13) continue;  // its extents say what the others' must be
      change("of other extents", [](Tensor& tensor) { ++tensor.extents[1]; });
    }
    for (const Scalar scalar : experts::all_scalars) {
      add("shape-unsupported", fmt::format("{} of all experts", experts::name(scalar)), {2},
          [scalar](Stocks& stocks) {
            experts::tensor_of(stocks[2], scalar) =
                host_floats(std::vector<float>(shape.experts, 1));
          });
    }
  }

  void add_widths() {
    for (const layout::Shape& other : {layout::Shape{6, 192, 192, 3}, layout::Shape{6, 128, 288, 3},
                                       layout::Shape{6, 128, 256, 3}}) {
      add("shape-unsupported", fmt::format("H {} I {}", other.hidden, other.intermediate),
          {0, 1, 2}, [other](Stocks& stocks) { reshape(stocks, other); });
    }
    add("shape-differs-across-ranks", "H 256 on one rank", {1}, [](Stocks& stocks) {
      stocks[1] = experts::payload_stock(payload, {6, 256, 192, 3}, 1);
    });
    add("shape-differs-across-ranks", "I 384 on one rank", {2}, [](Stocks& stocks) {
      stocks[2] = experts::payload_stock(payload, {6, 128, 384, 3}, 2);
    });
  }

  void add_placement() {
    add("shape-unsupported", "one expert on one rank, two on the others", {2}, [](Stocks& stocks) {
      stocks[2] = experts::payload_stock(payload, {3, 128, 192, 3}, 2);
    });
    add("not-linear-placement", "rank 1 from expert 0", {1},
        [](Stocks& stocks) { stocks[1].first_expert = 0; });
  }

  void add_scales() {
    const auto said = [this](std::string_view tensor, std::vector<std::int64_t> experts) {
      made_.back().due.tensors = {std::string(tensor)};
      made_.back().due.experts = std::move(experts);
    };
    add("input-scale-differs-across-ranks", "a1_gscale of rank 1", {1}, [](Stocks& stocks) {
      stocks[1].a1_gscale = host_floats({1.25F * floats(stocks[0].a1_gscale).front()});
    });
    said("a1_gscale", {});
    add("input-scale-differs-across-ranks", "a2_gscale of rank 0", {0}, [](Stocks& stocks) {
      stocks[0].a2_gscale = host_floats({0.5F * floats(stocks[1].a2_gscale).front()});
    });
    said("a2_gscale", {});
    for (const float none : {0.0F, -1.0F, NAN, INFINITY, 1e-40F}) {
      for (const Scalar scalar : experts::all_scalars) {
        add("scale-not-finite-positive", fmt::format("{} {}", experts::name(scalar), none), {2},
            [=](Stocks& stocks) {
              std::vector<float> values = floats(experts::tensor_of(stocks[2], scalar));
              values[1] = none;
              experts::tensor_of(stocks[2], scalar) = host_floats(values);
            });
        said(experts::name(scalar), {5});
      }
    }
  }

  std::vector<RefusalMutant> made_;
};

}  // namespace

std::vector<RefusalMutant> refusal_mutants() { return Catalogue().made(); }

std::vector<report::Finding> said_of(const RefusalMutant& mutant) {
  Stocks stocks;
  for (std::int64_t rank = 0; rank < shape.tp; ++rank) {
    stocks.push_back(experts::payload_stock(payload, shape, rank));
  }
  mutant.plant(stocks);
  std::vector<report::Report> parts(shape.tp);
  group::run_local({static_cast<int>(shape.tp), {}}, [&](group::Group& group) {
    const int rank = group.rank();
    try {
      const experts::TpExperts cut = reshard::reshard_nvfp4(stocks[rank], group, shape.experts);
    } catch (const group::Refusal& refusal) {
      parts[rank] = refused(refusal, {rank, 0, rank, group.size()});
    }
  });
  return report::merged(parts).findings;
}

}  // namespace slicecheck::app
