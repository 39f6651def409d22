// The theorem and its neighbours, over every expert, slice and tensor of the case.
#include <fmt/format.h>

#include <algorithm>

#include "properties/law.h"

namespace slicecheck::properties {
namespace {

using experts::ConvertedExpert;
using experts::PlainExpert;
using layout::Kind;

// What differs between two byte vectors, or nothing.
Reason different(std::string_view what, Bytes got, Bytes due) {
  if (got.size() != due.size()) {
    return Reason(fmt::format("{} has {} bytes, expected {}", what, got.size(), due.size()));
  }
  const auto at = std::mismatch(got.begin(), got.end(), due.begin());
  if (at.first == got.end()) return {};
  return Reason(fmt::format("{} has {:02x} at byte {}, expected {:02x}", what, *at.first,
                            at.first - got.begin(), *at.second));
}

Reason different(const ConvertedExpert& got, const ConvertedExpert& due) {
  for (const Kind kind : layout::kinds) {
    Reason reason = different(name(kind), bytes_of(got, kind), bytes_of(due, kind));
    if (reason) return reason;
  }
  if (got.widths != due.widths) return Reason("the widths differ");
  return {};
}

Reason different(const PlainExpert& got, const PlainExpert& due) {
  for (const layout::Projection each : layout::projections) {
    const experts::PlainProjection& mine = projection_of(got, each);
    Reason reason = different(name(each), mine.weight, projection_of(due, each).weight);
    if (!reason) reason = different(name(each), mine.scale, projection_of(due, each).scale);
    if (reason) return reason;
  }
  return {};
}

PlainExpert expert_of(const Case& given, std::int64_t expert) {
  return experts::payload_expert(given.payload, expert, layout::stock_widths(given.shape));
}

Reason slice_of_converted_is_converted_slice(const Case& given, const Subject& subject) {
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const PlainExpert plain = expert_of(given, e);
    const ConvertedExpert whole = subject.converted(plain);
    for (std::int64_t d = 0; d < given.shape.tp; ++d) {
      Reason reason = different(subject.converted_slice(whole, given.shape.tp, d),
                                subject.converted(subject.plain_slice(plain, given.shape.tp, d)));
      if (reason) return Reason(fmt::format("slice {} of expert {}: {}", d, e, reason.text()));
    }
  }
  return {};
}

Reason unconvert_undoes_convert(const Case& given, const Subject& subject) {
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const PlainExpert plain = expert_of(given, e);
    Reason reason = different(subject.unconverted(subject.converted(plain)), plain);
    if (reason) return Reason(fmt::format("expert {}: {}", e, reason.text()));
  }
  return {};
}

Reason both_derivations_agree(const Case& given, const Subject& subject) {
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const PlainExpert plain = expert_of(given, e);
    for (std::int64_t d = 0; d < given.shape.tp; ++d) {
      Reason reason = different(subject.converted(subject.plain_slice(plain, given.shape.tp, d)),
                                subject.placed_slice(plain, given.shape.tp, d));
      if (reason) return Reason(fmt::format("slice {} of expert {}: {}", d, e, reason.text()));
    }
  }
  return {};
}

// A cut by a, then by b, is the cut by a b.
Reason cutting_again_cuts_finer(const Case& given, const Subject& subject) {
  const std::int64_t a = given.shape.tp;
  const std::int64_t b = given.again;
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const ConvertedExpert whole = subject.converted(expert_of(given, e));
    for (std::int64_t d = 0; d < a * b; ++d) {
      const ConvertedExpert half = subject.converted_slice(whole, a, d / b);
      Reason reason = different(subject.converted_slice(half, b, d % b),
                                subject.converted_slice(whole, a * b, d));
      if (reason) {
        return Reason(fmt::format("slice {} of expert {}: {}", d, e, reason.text()));
      }
    }
  }
  return {};
}

// The payload's closed form, byte by byte, against the experts that are filled word by word.
Reason byte_of_a_place_is_the_experts_byte(const Case& given, const Subject& subject) {
  const layout::Widths widths = layout::stock_widths(given.shape);
  for (std::int64_t e = 0; e < given.shape.experts; ++e) {
    const ConvertedExpert whole = subject.converted(expert_of(given, e));
    for (const Kind kind : layout::kinds) {
      const ByteVector& bytes = bytes_of(whole, kind);
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        const layout::PlainPlace place =
            subject.plain_place(kind, static_cast<std::int64_t>(at), widths);
        if (layout::payload_byte(given.payload, e, place, widths) != bytes[at]) {
          return Reason(fmt::format("byte {} of {} of expert {} is {:02x}, the payload says {:02x}",
                                    at, name(kind), e, bytes[at],
                                    layout::payload_byte(given.payload, e, place, widths)));
        }
      }
    }
  }
  return {};
}

// Slice r of one expert of a stock, cut and packed.
ByteVector cut_of(const Tensor& stock, std::int64_t local, const layout::Cut& cut, std::int64_t r) {
  const std::uint8_t* from = stock.data.get() + local * cut.expert_bytes + r * cut.run_bytes;
  ByteVector part;
  for (std::int64_t run = 0; run < cut.runs; ++run, from += cut.run_stride) {
    part.insert(part.end(), from, from + cut.run_bytes);
  }
  return part;
}

// What the stock that holds expert e gives for it differs from what rank r's tp must hold.
Reason expert_different(const Case& given, const Subject& subject, std::int64_t e, std::int64_t r,
                        const experts::StockExperts& stock, const experts::TpExperts& due) {
  const std::int64_t local = e % given.shape.experts_per_rank();
  for (const Kind kind : layout::kinds) {
    const layout::Cut cut = subject.cut(kind, given.shape);
    const Bytes all = host_bytes(tensor_of(due, kind));
    Reason reason = different(name(kind), cut_of(tensor_of(stock, kind), local, cut, r),
                              all.subspan(e * cut.slice_bytes(), cut.slice_bytes()));
    if (reason) return reason;
  }
  for (const experts::Scalar scalar : experts::all_scalars) {
    Reason reason =
        different(name(scalar), host_bytes(tensor_of(stock, scalar)).subspan(4 * local, 4),
                  host_bytes(tensor_of(due, scalar)).subspan(4 * e, 4));
    if (reason) return reason;
  }
  return {};
}

// All ranks' stocks, cut and gathered in expert order, are what each rank must hold, the scalars'
// bits included.
Reason stocks_hold_what_tp_must(const Case& given, const Subject& subject) {
  const layout::Shape& shape = given.shape;
  std::vector<experts::StockExperts> stocks;
  for (std::int64_t r = 0; r < shape.tp; ++r) {
    stocks.push_back(experts::payload_stock(given.payload, shape, r));
  }
  for (std::int64_t r = 0; r < shape.tp; ++r) {
    const experts::TpExperts due = experts::payload_tp(given.payload, shape, r);
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      Reason reason =
          expert_different(given, subject, e, r, stocks[e / shape.experts_per_rank()], due);
      if (reason) return Reason(fmt::format("rank {}, expert {}: {}", r, e, reason.text()));
    }
  }
  return {};
}

}  // namespace

std::vector<Law> experts_laws() {
  using enum Dimension;
  const std::vector<Dimension> all{tp, hidden_tiles, slice_tiles, experts_per_rank, payload};
  return {
      {"Cut.slice_of_converted_is_converted_slice", Draw::valid, all,
       slice_of_converted_is_converted_slice},
      {"Cut.cutting_again_cuts_finer",
       Draw::cut_again,
       {tp, hidden_tiles, payload, again},
       cutting_again_cuts_finer},
      {"Convert.unconvert_undoes_convert", Draw::valid, all, unconvert_undoes_convert},
      {"Convert.both_derivations_agree", Draw::valid, all, both_derivations_agree},
      {"Payload.byte_of_a_place_is_the_experts_byte", Draw::valid, all,
       byte_of_a_place_is_the_experts_byte},
      {"Stock.ranks_together_hold_what_tp_must", Draw::valid, all, stocks_hold_what_tp_must},
  };
}

}  // namespace slicecheck::properties
