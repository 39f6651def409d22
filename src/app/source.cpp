#include "app/source.h"

#include <fmt/format.h>

#include <charconv>

#include "app/models.h"
#include "checkpoint/checkpoint.h"

namespace slicecheck::app {
namespace {

layout::PayloadKind payload_kind(const std::string& name) {
  if (name == "numeric") return layout::PayloadKind::numeric;
  return name == "exact" ? layout::PayloadKind::exact : layout::PayloadKind::bytes;
}

layout::Shape synthetic_shape(const ExpertOptions& options, std::int64_t tp) {
  layout::Shape shape{2 * tp, 640, 192 * tp, tp};
  if (const std::optional<Model> model = model_named(options.model)) {
    shape = {model->experts, model->hidden, model->intermediate, tp};
  }
  if (options.experts != 0) shape.experts = options.experts;
  if (options.hidden != 0) shape.hidden = options.hidden;
  if (options.intermediate != 0) shape.intermediate = options.intermediate;
  return shape;
}

/// Device or host room for the six matrices of one plain expert, filled again for each expert.
class PlainRoom {
 public:
  PlainRoom(const Source& source, memory::Space& space) : source_(source), space_(space) {}

  Reason open() {
    for (const layout::Projection projection : layout::projections) {
      for (const bool scale : {false, true}) {
        const std::int64_t bytes =
            layout::plain_matrix(projection, scale, layout::stock_widths(source_.shape)).bytes();
        auto room = space_.allocate(bytes, "one plain expert");
        if (room.reason) return room.reason;
        at(projection, scale) = *room;
      }
    }
    return {};
  }

  Reason fill(std::int64_t expert) {
    if (source_.payload) {
      for (const layout::Projection projection : layout::projections) {
        for (const bool scale : {false, true}) {
          space_.fill_plain(at(projection, scale).get(),
                            {*source_.payload, projection, scale,
                             layout::stock_widths(source_.shape), expert, 1});
        }
      }
      return {};
    }
    const Result<experts::PlainExpert> plain = source_.plain(expert);
    if (plain.reason) return plain.reason;
    for (const layout::Projection projection : layout::projections) {
      const experts::PlainProjection& from = experts::projection_of(*plain, projection);
      space_.upload(at(projection, false).get(), from.weight);
      space_.upload(at(projection, true).get(), from.scale);
    }
    return {};
  }

  memory::PlainSource source_for(layout::Kind kind) {
    const bool scale = layout::is_scale(kind);
    return {at(layout::Projection::w3, scale).get(), at(layout::Projection::w1, scale).get(),
            at(layout::Projection::w2, scale).get()};
  }

 private:
  std::shared_ptr<std::uint8_t>& at(layout::Projection projection, bool scale) {
    return rooms_[2 * static_cast<std::size_t>(projection) + (scale ? 1 : 0)];
  }

  const Source& source_;
  memory::Space& space_;
  std::array<std::shared_ptr<std::uint8_t>, 6> rooms_;
};

Reason allocate_stock(experts::StockExperts& stock, const layout::Shape& shape,
                      memory::Space& space) {
  for (const layout::Kind kind : layout::kinds) {
    Tensor& tensor = experts::tensor_of(stock, kind);
    tensor.dtype = layout::is_scale(kind) ? Dtype::f8_e4m3 : Dtype::u8;
    tensor.extents = experts::stock_extents(kind, shape);
    auto room = space.allocate(tensor.bytes(), fmt::format("stock {}", layout::name(kind)));
    if (room.reason) return room.reason;
    tensor.data = *room;
  }
  return {};
}

/// An F32 tensor of these values in `space`.
Reason place_floats(Tensor& tensor, const std::vector<float>& values, memory::Space& space) {
  tensor = host_floats(values);
  const Bytes bytes = host_bytes(tensor);
  auto room = space.allocate(static_cast<std::int64_t>(bytes.size()), "scalars");
  if (room.reason) return room.reason;
  space.upload(room->get(), bytes);
  space.synchronise();
  tensor.data = *room;
  return {};
}

Reason place_scalars(experts::StockExperts& stock, const experts::Scalars& scalars,
                     memory::Space& space) {
  Reason reason;
  for (const experts::Scalar scalar : experts::all_scalars) {
    if (!reason) {
      reason = place_floats(experts::tensor_of(stock, scalar), experts::values_of(scalars, scalar),
                            space);
    }
  }
  if (!reason) reason = place_floats(stock.a1_gscale, {scalars.a1_gscale}, space);
  if (!reason) reason = place_floats(stock.a2_gscale, {scalars.a2_gscale}, space);
  return reason;
}

Result<std::int64_t> layer_number(const std::string& text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 0) return number;
  return Reason(fmt::format("--layer {} is not one layer's number", text));
}

Result<Source> checkpoint_source(const ExpertOptions& options, int tp) {
  const Result<std::int64_t> number = layer_number(options.layer);
  if (number.reason) return number.reason;
  Result<checkpoint::Checkpoint> opened = checkpoint::Checkpoint::open(options.checkpoint);
  if (opened.reason) return opened.reason;
  Result<checkpoint::Layer> found = opened->layer(*number);
  if (found.reason) return found.reason;
  const auto layer = std::make_shared<const checkpoint::Layer>(std::move(*found));
  Source made;
  made.shape = {layer->experts(), layer->widths().hidden, layer->widths().intermediate, tp};
  made.layer = *number;
  made.name = checkpoint::name(layer->format());
  made.up_by_gate = up_by_gate(*layer);
  made.plain = [layer](std::int64_t expert) { return layer->expert(expert); };
  made.plain_slice = [layer, tp](std::int64_t expert, std::int64_t d) {
    return layer->expert_slice(expert, tp, d);
  };
  made.scalars = [layer, number = *number](std::int64_t first, std::int64_t count) {
    Result<experts::Scalars> scalars = layer->scalars(first, count);
    if (scalars.reason) scalars.reason = checkpoint::of_checkpoint(scalars.reason, number);
    return scalars;
  };
  return made;
}

}  // namespace

std::vector<float> up_by_gate(const checkpoint::Layer& layer) {
  std::vector<float> ratios;
  bool differ = false;
  for (std::int64_t expert = 0; expert < layer.experts(); ++expert) {
    const std::optional<float> gate = layer.scales(expert, layout::Projection::w1).weight;
    const std::optional<float> up = layer.scales(expert, layout::Projection::w3).weight;
    const bool both = gate.has_value() && up.has_value();
    ratios.push_back(both ? *up / *gate : 1.0F);
    differ = differ || ratios.back() != 1.0F;
  }
  return differ ? ratios : std::vector<float>();
}

Source payload_source(const layout::Payload& payload, const layout::Shape& shape) {
  const layout::Widths widths = layout::stock_widths(shape);
  Source made;
  made.shape = shape;
  made.payload = payload;
  made.name = layout::name(payload.kind);
  made.plain = [=](std::int64_t expert) -> Result<experts::PlainExpert> {
    return experts::payload_expert(payload, expert, widths);
  };
  made.plain_slice = [=](std::int64_t expert, std::int64_t d) -> Result<experts::PlainExpert> {
    return experts::slice(experts::payload_expert(payload, expert, widths), shape.tp, d);
  };
  made.scalars = [=](std::int64_t first, std::int64_t count) -> Result<experts::Scalars> {
    return experts::payload_scalars(payload.seed, first, count, widths);
  };
  return made;
}

Result<Source> source_of(const Options& options, int tp) {
  if (!options.experts.checkpoint.empty()) return checkpoint_source(options.experts, tp);
  const layout::Shape shape = synthetic_shape(options.experts, tp);
  return payload_source({payload_kind(options.experts.payload), options.seed, 0}, shape);
}

Reason unshared(const layout::Shape& shape) {
  if (shape.experts % shape.tp == 0 && shape.experts >= shape.tp) return {};
  return Reason(fmt::format("{} ranks x {} experts is not {} experts", shape.tp,
                            shape.experts / shape.tp, shape.experts),
                "shape-unsupported");
}

Result<experts::StockExperts> stock_of(const Source& source, int rank, memory::Space& space) {
  const layout::Shape& shape = source.shape;
  const std::int64_t held = shape.experts_per_rank();
  experts::StockExperts stock;
  stock.first_expert = rank * held;
  PlainRoom room(source, space);
  const Result<experts::Scalars> scalars = source.scalars(stock.first_expert, held);
  Reason reason = scalars.reason;
  if (!reason) reason = allocate_stock(stock, shape, space);
  if (!reason) reason = place_scalars(stock, *scalars, space);
  if (!reason) reason = room.open();
  for (std::int64_t local = 0; local < held && !reason; ++local) {
    reason = room.fill(stock.first_expert + local);
    if (reason) break;
    for (const layout::Kind kind : layout::kinds) {
      const std::int64_t bytes = layout::matrix(kind, layout::stock_widths(shape)).bytes();
      space.convert(experts::tensor_of(stock, kind).data.get() + local * bytes, kind,
                    layout::stock_widths(shape), room.source_for(kind), 1);
    }
  }
  space.synchronise();
  if (reason) return reason;
  return stock;
}

}  // namespace slicecheck::app
