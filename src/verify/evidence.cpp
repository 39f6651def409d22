#include "verify/evidence.h"

#include <algorithm>

#include "base/must.h"
#include "experts/convert.h"

namespace slicecheck::verify {
namespace {

Bytes part_of(const Tensor& tensor, std::int64_t at) {
  const MutableBytes all = host_bytes(tensor);
  const std::size_t each = all.size() / static_cast<std::size_t>(tensor.extents[0]);
  return Bytes(all).subspan(static_cast<std::size_t>(at) * each, each);
}

RankScalars& scalars_of(Evidence& evidence, std::int64_t rank) {
  for (RankScalars& one : evidence.scalars) {
    if (one.rank == rank) return one;
  }
  evidence.scalars.push_back({rank, {}, {}, {}, {}, {}});
  return evidence.scalars.back();
}

// What a correct cut gives each rank of a wrong stock tensor.
void add_cuts(const layout::Shape& shape, const Target& target, Bytes got, Evidence& evidence) {
  const layout::Cut cut = layout::cut(target.kind, shape);
  for (std::int64_t d = 0; d < shape.tp; ++d) {
    DigestStream stream;
    for (std::int64_t run = 0; run < cut.runs; ++run) {
      stream.add(got.subspan(run * cut.run_stride + d * cut.run_bytes, cut.run_bytes));
    }
    evidence.cuts.push_back({target.kind, target.expert, d, stream.of()});
  }
}

// Scales that are none, in a tensor whose bytes are taken as they are.
void judge_scales(const Target& target, Bytes got, Evidence& evidence) {
  std::int64_t invalid = 0;
  std::int64_t saturated = 0;
  std::int64_t first = -1;
  for (std::size_t at = 0; at < got.size(); ++at) {
    const bool bad = (got[at] & 0x80U) != 0 || got[at] == 0x7F;
    invalid += bad;
    saturated += got[at] == 0x7E;
    if (bad && first < 0) first = static_cast<std::int64_t>(at);
  }
  const bool many = saturated * 50 > static_cast<std::int64_t>(got.size());
  if (invalid == 0 && !many) return;
  WrongTensor made;
  made.target = target;
  made.map = healthy_map(target);
  made.bytes = static_cast<std::int64_t>(got.size());
  made.beside = invalid > 0 ? invalid : saturated;
  made.first = std::max<std::int64_t>(first, 0);
  if (invalid == 0) made.first = std::find(got.begin(), got.end(), 0x7E) - got.begin();
  made.last = made.first;
  made.causes.add(invalid > 0 ? Cause::block_scale_invalid : Cause::block_scale_saturated);
  made.shown = static_cast<std::uint8_t>(std::min<std::int64_t>(16, made.bytes - made.first));
  std::copy_n(got.begin() + made.first, made.shown, made.got.begin());
  made.want = made.got;
  evidence.wrong.push_back(made);
}

void put_bytes(ByteVector& to, const void* from, std::size_t count) {
  const std::size_t at = to.size();
  to.resize(at + count);
  if (count > 0) std::memcpy(to.data() + at, from, count);
}

template <typename T>
void put(ByteVector& to, const T& value) {
  put_bytes(to, &value, sizeof(T));
}

template <typename T>
void put_all(ByteVector& to, const std::vector<T>& values) {
  put(to, static_cast<std::int64_t>(values.size()));
  put_bytes(to, values.data(), values.size() * sizeof(T));
}

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }

  template <typename T>
  T one() {
    must(bytes_.size() >= sizeof(T), "evidence ends early");
    T value;
    std::memcpy(static_cast<void*>(&value), bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }

  template <typename T>
  std::vector<T> all() {
    std::vector<T> values(static_cast<std::size_t>(one<std::int64_t>()));
    for (T& value : values) value = one<T>();
    return values;
  }

 private:
  Bytes bytes_;
};

}  // namespace

void judge_tensor(Judge& judge, const Target& target, Bytes got, Evidence& evidence) {
  const std::optional<WrongTensor> wrong = judge.judged(target, got);
  if (wrong) {
    evidence.wrong.push_back(*wrong);
    if (target.side == Side::stock) {
      add_cuts(judge.reference().layer().shape, target, got, evidence);
    }
  } else if (!judge.reference().payload() && layout::is_scale(target.kind)) {
    judge_scales(target, got, evidence);
  }
}

void judge_stock(Judge& judge, std::int64_t rank, const experts::StockExperts& stock,
                 Evidence& evidence) {
  const std::int64_t held = judge.reference().layer().shape.experts_per_rank();
  for (std::int64_t local = 0; local < held; ++local) {
    for (const layout::Kind kind : layout::kinds) {
      const Target target{Side::stock, kind, rank, rank * held + local};
      judge_tensor(judge, target, part_of(experts::tensor_of(stock, kind), local), evidence);
    }
  }
  RankScalars& mine = scalars_of(evidence, rank);
  mine.first_expert = stock.first_expert;
  for (const experts::Scalar scalar : experts::all_scalars) {
    mine.stock[static_cast<std::size_t>(scalar)] = floats(experts::tensor_of(stock, scalar));
  }
  mine.a1_gscale = floats(stock.a1_gscale);
  mine.a2_gscale = floats(stock.a2_gscale);
}

void judge_true_stock(Judge& judge, std::int64_t rank, const experts::StockExperts& stock,
                      Evidence& evidence) {
  const std::int64_t held = judge.reference().layer().shape.experts_per_rank();
  for (std::int64_t local = 0; local < held; ++local) {
    for (const layout::Kind kind : {layout::Kind::w13_sf, layout::Kind::w2_sf}) {
      judge_scales({Side::stock, kind, rank, rank * held + local},
                   part_of(experts::tensor_of(stock, kind), local), evidence);
    }
  }
  RankScalars& mine = scalars_of(evidence, rank);
  mine.first_expert = stock.first_expert;
  for (const experts::Scalar scalar : experts::all_scalars) {
    mine.stock[static_cast<std::size_t>(scalar)] = floats(experts::tensor_of(stock, scalar));
  }
  mine.a1_gscale = floats(stock.a1_gscale);
  mine.a2_gscale = floats(stock.a2_gscale);
}

void judge_tp(Judge& judge, std::int64_t rank, const experts::TpExperts& tp, Evidence& evidence) {
  for (std::int64_t expert = 0; expert < judge.reference().layer().shape.experts; ++expert) {
    for (const layout::Kind kind : layout::kinds) {
      judge_tensor(judge, {Side::tp, kind, rank, expert},
                   part_of(experts::tensor_of(tp, kind), expert), evidence);
    }
  }
  RankScalars& mine = scalars_of(evidence, rank);
  for (const experts::Scalar scalar : experts::all_scalars) {
    mine.tp[static_cast<std::size_t>(scalar)] = floats(experts::tensor_of(tp, scalar));
  }
}

Loader loader_of(const std::vector<experts::StockExperts>& stocks, const Case& layer) {
  return [&stocks, layer](std::int64_t expert) {
    const std::int64_t held = layer.shape.experts_per_rank();
    experts::ConvertedExpert converted;
    converted.widths = layout::stock_widths(layer.shape);
    for (const layout::Kind kind : layout::kinds) {
      const Bytes bytes = part_of(
          experts::tensor_of(stocks[static_cast<std::size_t>(expert / held)], kind), expert % held);
      experts::bytes_of(converted, kind) = ByteVector(bytes.begin(), bytes.end());
    }
    return experts::unconverted(converted);
  };
}

ByteVector packed(const Evidence& evidence) {
  ByteVector made;
  put_all(made, evidence.wrong);
  put_all(made, evidence.cuts);
  put(made, static_cast<std::int64_t>(evidence.scalars.size()));
  for (const RankScalars& one : evidence.scalars) {
    put(made, one.rank);
    put(made, one.first_expert.has_value());
    put(made, one.first_expert.value_or(0));
    for (const auto& values : one.stock) put_all(made, values);
    for (const auto& values : one.tp) put_all(made, values);
    put_all(made, one.a1_gscale);
    put_all(made, one.a2_gscale);
  }
  return made;
}

Evidence unpacked(Bytes bytes) {
  Reader reader(bytes);
  Evidence made;
  made.wrong = reader.all<WrongTensor>();
  made.cuts = reader.all<CutOfWrongStock>();
  const auto count = reader.one<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    RankScalars one;
    one.rank = reader.one<std::int64_t>();
    const bool declared = reader.one<bool>();
    const auto first = reader.one<std::int64_t>();
    if (declared) one.first_expert = first;
    for (auto& values : one.stock) values = reader.all<float>();
    for (auto& values : one.tp) values = reader.all<float>();
    one.a1_gscale = reader.all<float>();
    one.a2_gscale = reader.all<float>();
    made.scalars.push_back(std::move(one));
  }
  must(reader.done(), "evidence goes on behind its end");
  return made;
}

void join(Evidence& evidence, const Evidence& other) {
  evidence.wrong.insert(evidence.wrong.end(), other.wrong.begin(), other.wrong.end());
  evidence.cuts.insert(evidence.cuts.end(), other.cuts.begin(), other.cuts.end());
  for (const RankScalars& one : other.scalars) {
    RankScalars& mine = scalars_of(evidence, one.rank);
    if (one.first_expert) {
      mine.first_expert = one.first_expert;
      mine.stock = one.stock;
      mine.a1_gscale = one.a1_gscale;
      mine.a2_gscale = one.a2_gscale;
    }
    if (!one.tp[0].empty()) mine.tp = one.tp;
  }
}

}  // namespace slicecheck::verify
