#include "faults/mutants.h"

#include <algorithm>
#include <set>

#include "faults/byte_faults.h"
#include "faults/catalogue.h"
#include "faults/layout_faults.h"
#include "faults/placement_faults.h"
#include "faults/scalar_faults.h"

namespace slicecheck::faults {
namespace {

using layout::Kind;

const std::vector<Kind> all_kinds{layout::kinds.begin(), layout::kinds.end()};

std::vector<std::string> names_of(const std::vector<Kind>& kinds) {
  std::vector<std::string> made;
  for (const Kind kind : kinds) made.emplace_back(layout::name(kind));
  return made;
}

// An empty list where it is all of `count`.
std::vector<std::int64_t> unless_all(const std::set<std::int64_t>& numbers, std::int64_t count) {
  if (static_cast<std::int64_t>(numbers.size()) == count) return {};
  return {numbers.begin(), numbers.end()};
}

std::string words(const Where& where) {
  std::string made(where.side == Side::tp ? "tp" : "stock");
  const auto put = [&](std::string_view word, std::string_view value) {
    made.append(word).append(value);
  };
  for (const Kind kind : where.kinds) put(" ", layout::name(kind));
  for (const std::int64_t e : where.experts) put(" expert ", std::to_string(e));
  for (const std::int64_t r : where.ranks) put(" rank ", std::to_string(r));
  return made;
}

bool visible(const LayoutEntry& entry, const layout::Shape& shape, const Where& where) {
  if (where.side == Side::stock && entry.tp_only) return false;
  // 16 columns: interleaved twice is linear, unless w13_sf beside it says which.
  const bool alone = where.kinds == std::vector{Kind::w2_sf};
  if (entry.name == "scales-interleaved-twice" && alone && where.side == Side::tp &&
      shape.slice() == 256) {
    return false;
  }
  if (entry.cause != "wrong-axis-cut") return true;
  return shape.hidden / 16 % shape.tp == 0;
}

// The causes of the catalogue's rules of precedence.
std::string called(const LayoutEntry& entry, const Where& where) {
  const bool scales = std::all_of(where.kinds.begin(), where.kinds.end(), layout::is_scale);
  const bool w2 = std::none_of(where.kinds.begin(), where.kinds.end(), layout::is_w13);
  if (entry.name == "rows-not-shuffled" && scales) return "scale-rows-not-shuffled";
  if (entry.name == "not-converted" && where.kinds == std::vector{Kind::w2}) {
    return "rows-not-shuffled";
  }
  if (entry.name == "wrong-axis-cut" && w2) return "flat-cut";
  if (entry.cause == "wrong-slice" && entry.name != "wrong-slice/transposed" &&
      where.experts.empty() && where.kinds.size() == 4) {
    return "rank-order";
  }
  return std::string(entry.cause);
}

}  // namespace

Expected expected(std::string cause, const Where& where) {
  return {std::move(cause), where.side, names_of(where.kinds), where.experts, where.ranks};
}

void Catalogue::add(std::string_view fault, const layout::Shape& shape,
                    const layout::Payload& payload, const Where& where,
                    std::function<void(Layer&)> plant, std::vector<Expected> due) {
  made_.push_back({std::string(fault),
                   words(where),
                   shape,
                   payload,
                   {},
                   std::move(plant),
                   std::move(due),
                   where.side == Side::stock});
}

// Experts and ranks that make sense: everywhere, one expert, one rank, one of both, two of each.
std::vector<Where> Catalogue::patterns(const layout::Shape& shape, Side side) const {
  std::vector<Where> made{{side, {}, {}, {}}, {side, {}, {4}, {}}};
  if (side == Side::stock) {
    if (full_) made.push_back({side, {}, {1, 5}, {}});
    return made;
  }
  made.push_back({side, {}, {}, {shape.tp - 1}});
  made.push_back({side, {}, {3}, {1}});
  if (full_) made.push_back({side, {}, {1, 2}, {0, 1}});
  return made;
}

void Catalogue::add_layout(const LayoutEntry& entry, const layout::Shape& shape,
                           const layout::Payload& payload, const Where& where) {
  if (!visible(entry, shape, where)) return;
  Expected due = expected(called(entry, where), where);
  due.ranks = unless_all({due.ranks.begin(), due.ranks.end()}, shape.tp);
  if (due.side == Side::stock && !due.experts.empty()) {
    std::set<std::int64_t> holders;
    for (const std::int64_t e : due.experts) holders.insert(e / shape.experts_per_rank());
    due.ranks = unless_all(holders, shape.tp);
  }
  if (entry.name == "wrong-slice/reversed" && shape.tp % 2 == 1) {
    // The middle rank's slice is its own.
    std::set<std::int64_t> ranks(where.ranks.begin(), where.ranks.end());
    for (std::int64_t r = 0; where.ranks.empty() && r < shape.tp; ++r) ranks.insert(r);
    ranks.erase(shape.tp / 2);
    if (ranks.empty()) return;
    due.ranks = unless_all(ranks, shape.tp);
  }
  // Which places this one leaves as they are depends on the shape.
  if (entry.name == "wrong-slice/transposed" && !(where.experts.empty() && where.ranks.empty())) {
    return;
  }
  const bool recuts = where.side == Side::stock;
  add(entry.name, shape, payload, where,
      [&entry, where, recuts](Layer& layer) {
        plant(layer, entry, where);
        if (recuts) recut(layer);
      },
      {due});
}

void Catalogue::add_layout() {
  std::vector<layout::Shape> shapes{t1, t2};
  if (full_) shapes.push_back(t3);
  for (const LayoutEntry& entry : layout_faults()) {
    for (const layout::Shape& shape : shapes) {
      for (const Side side : {Side::tp, Side::stock}) {
        for (Where where : patterns(shape, side)) {
          where.kinds = entry.kinds;
          add_layout(entry, shape, bytes_payload, where);
          if (full_) add_layout(entry, shape, numeric_payload, where);
          if (entry.kinds.size() == 1 || (!full_ && !where.experts.empty())) continue;
          for (const Kind kind : entry.kinds) {
            where.kinds = {kind};
            add_layout(entry, shape, bytes_payload, where);
          }
        }
      }
    }
  }
}

void Catalogue::add_bytes() {
  for (const layout::Shape& shape : {t1, t2}) {
    for (const Kind kind : layout::kinds) {
      const Where one{Side::tp, {kind}, {2}, {1}};
      const Where most{Side::tp, {kind}, {}, {}};
      for (const Where& where : {one, most}) {
        add("never-written", shape, bytes_payload, where,
            [where](Layer& l) { never_written(l, where, 0xA5); },
            {expected("never-written", where)});
        add("never-written", shape, bytes_payload, where,
            [where](Layer& l) {
              never_written(l, where, 0, {8, 16});
            },
            {expected("never-written", where)});
        add("bit-corruption", shape, bytes_payload, where,
            [where](Layer& l) { bit_corruption(l, where, 5, 77); },
            {expected("bit-corruption", where)});
        add("payload-of-other-layer", shape, bytes_payload, where,
            [where](Layer& l) { payload_of_other_layer(l, where, layout::layer_seed(1, 3)); },
            {expected("payload-of-other-layer", where)});
        add("payload-of-other-layer", shape, numeric_payload, where,
            [where](Layer& l) { payload_of_other_layer(l, where, 2); },
            {expected("payload-of-other-layer", where)});
        add("unexplained", shape, bytes_payload, where,
            [where](Layer& l) { rows_scrambled(l, where, 5); }, {expected("unexplained", where)});
      }
      const Where drift{Side::tp, {kind}, {1, 2, 3, 4, 5}, {1}};
      for (const std::int64_t bytes : {16, 512}) {
        add("expert-offset-drift", shape, bytes_payload, drift,
            [drift, bytes](Layer& l) { expert_offset_drift(l, drift, bytes); },
            {expected("expert-offset-drift", drift)});
        add("expert-offset-drift", shape, bytes_payload, drift,
            [drift, bytes](Layer& l) { expert_write_drift(l, drift, bytes); },
            {expected("expert-offset-drift", drift)});
      }
    }
    const Where stock{Side::stock, all_kinds, {}, {}};
    add("payload-of-other-layer", shape, bytes_payload, stock,
        [stock](Layer& l) {
          payload_of_other_layer(l, stock, layout::layer_seed(1, 7));
          recut(l);
        },
        {expected("payload-of-other-layer", stock)});
    add_whole_payloads(shape);
  }
}

// Everything that a seed rules, scalars too: of a whole side, and of one expert.
void Catalogue::add_whole_payloads(const layout::Shape& shape) {
  const Where stock{Side::stock, all_kinds, {}, {}};
  const Where tp{Side::tp, all_kinds, {}, {}};
  const Where one{Side::tp, all_kinds, {3}, {1}};
  for (const Where& where : {stock, tp, one}) {
    Expected due = expected("payload-of-other-layer", where);
    for (const experts::Scalar scalar : experts::all_scalars) {
      due.tensors.emplace_back(experts::name(scalar));
    }
    const auto add_one = [&](const layout::Payload& payload, std::uint64_t seed) {
      add("payload-of-other-layer", shape, payload, where,
          [where, seed](Layer& l) {
            whole_payload_of_other_layer(l, where, seed);
            if (where.side == Side::stock) recut(l);
          },
          {due});
      made_.back().pattern.append(" with scalars");
    };
    add_one(bytes_payload, layout::layer_seed(1, 5));
    // Of this seed the scales alone say nothing: it is the weights that tell it.
    add_one(numeric_payload, 9000000001);
  }
}

void Catalogue::add_scales() {
  for (const std::uint8_t value : {std::uint8_t{0x7F}, std::uint8_t{0xFF}, std::uint8_t{0x85}}) {
    for (const Kind kind : {Kind::w13_sf, Kind::w2_sf}) {
      const Where tp{Side::tp, {kind}, {2}, {1}};
      add("block-scale-invalid", t1, numeric_payload, tp,
          [tp, value](Layer& l) { block_scales_set(l, tp, 3, value); },
          {expected("block-scale-invalid", tp)});
      const Where stock{Side::stock, {kind}, {2}, {1}};
      add("block-scale-invalid", t1, numeric_payload, stock,
          [stock, value](Layer& l) {
            block_scales_set(l, stock, 3, value);
            recut(l);
          },
          {expected("block-scale-invalid", stock)});
      made_.back().needs_payload = false;  // a scale that is none needs no reference
    }
  }
  const Where many{Side::stock, {Kind::w13_sf}, {4}, {2}};
  Expected due = expected("block-scale-saturated", many);
  due.warning = true;
  add("block-scale-saturated", t1, numeric_payload, many,
      [many](Layer& l) {
        block_scales_set(l, many, 3000, 0x7E);
        recut(l);
      },
      {due});
  made_.back().needs_payload = false;
}

void Catalogue::add_padding() {
  constexpr layout::Shape padded{6, 384, 576, 3};  // I' 192
  constexpr layout::Widths data{320, 480};         // H 320, 160 channels a rank
  const auto add_padded = [&](std::string_view fault, const Where& where,
                              std::function<void(Layer&)> plant) {
    add(fault, padded, bytes_payload, where, std::move(plant),
        {expected(std::string(fault), where)});
    made_.back().data = data;
  };
  for (const std::vector<std::int64_t>& experts : {std::vector<std::int64_t>{}, {3}}) {
    const Where halves{Side::tp, {Kind::w13, Kind::w13_sf}, experts, {}};
    add_padded("padding-misplaced", halves, [halves, data](Layer& l) {
      padding_misplaced(l, halves, data, Padding::together_at_the_end);
    });
    const Where after{Side::tp, all_kinds, experts, {}};
    add_padded("padding-misplaced", after, [after, data](Layer& l) {
      padding_misplaced(l, after, data, Padding::after_the_cut);
    });
    const Where dirty{Side::tp, {Kind::w13, Kind::w13_sf}, experts, {}};
    add_padded("padding-dirty", dirty,
               [dirty, data](Layer& l) { padding_dirty(l, dirty, data, 0x11); });
  }
  const Where stock{Side::stock, {Kind::w13, Kind::w13_sf}, {}, {}};
  add_padded("padding-misplaced", stock, [stock, data](Layer& l) {
    padding_misplaced(l, stock, data, Padding::together_at_the_end);
    recut(l);
  });
}

// Two causes: in different tensors, and in one.
void Catalogue::add_pairs() {
  const auto entry = [](std::string_view name) {
    for (const LayoutEntry& one : layout_faults()) {
      if (one.name == name) return one;
    }
    return layout_faults().front();
  };
  const auto pair = [&](std::string_view a, Kind kind_a, std::string_view b, Kind kind_b,
                        const std::vector<std::int64_t>& experts) {
    const Where first{Side::tp, {kind_a}, experts, {}};
    const Where second{Side::tp, {kind_b}, experts, {}};
    for (const layout::Shape& shape : {t1, t2}) {
      add("two causes, two tensors", shape, bytes_payload, first,
          [=, one = entry(a), two = entry(b)](Layer& l) {
            plant(l, one, first);
            plant(l, two, second);
          },
          {expected(std::string(entry(a).cause), first),
           expected(std::string(entry(b).cause), second)});
    }
  };
  pair("gate-up-swapped", Kind::w13, "scales-linear", Kind::w2_sf, {});
  pair("nibbles-swapped", Kind::w2, "scales-8x4", Kind::w13_sf, {});
  pair("rows-shuffled-inverse", Kind::w13, "flat-cut", Kind::w2, {2});
  pair("nibbles-swapped", Kind::w13, "rows-not-shuffled", Kind::w2, {});
  const auto composed = [&](std::string_view inner, Kind kind) {
    const Where where{Side::tp, {kind}, {}, {}};
    for (const layout::Shape& shape : {t1, t2}) {
      add("two causes, one tensor", shape, bytes_payload, where,
          [=, one = entry(inner)](Layer& l) {
            plant(l, one, where);
            for (const Spot& spot : spots(l, where)) {
              for (std::uint8_t& byte : bytes_at(l, spot)) {
                byte = static_cast<std::uint8_t>(byte << 4 | byte >> 4);
              }
            }
          },
          {expected(std::string(entry(inner).cause), where), expected("nibbles-swapped", where)});
    }
  };
  for (const Kind kind : {Kind::w13, Kind::w2}) {
    composed("rows-not-shuffled", kind);
    composed("rows-shuffled-by-16", kind);
    composed("wrong-slice/shifted", kind);
  }
  composed("gate-up-swapped", Kind::w13);
  composed("cut-before-interleave", Kind::w13);
  composed("flat-cut", Kind::w2);
}

const std::vector<layout::Shape>& telling_shapes() {
  static const std::vector<layout::Shape> shapes{t1, t2, t3};
  return shapes;
}

std::vector<Mutant> mutants(bool full) { return Catalogue(full).made(); }

}  // namespace slicecheck::faults
