#include "properties/reshard/stock.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <limits>

#include "experts/payload.h"

namespace slicecheck::properties {
namespace {

using layout::Shape;

constexpr std::array<std::string_view, 9> tensor_names{"w13",       "w13_sf",    "w2",
                                                       "w2_sf",     "g1_alphas", "g1_scale_c",
                                                       "g2_alphas", "a1_gscale", "a2_gscale"};

Tensor& tensor_number(experts::StockExperts& stock, std::int64_t number) {
  const std::array<Tensor*, 9> all{&stock.w13,       &stock.w13_sf,    &stock.w2,
                                   &stock.w2_sf,     &stock.g1_alphas, &stock.g1_scale_c,
                                   &stock.g2_alphas, &stock.a1_gscale, &stock.a2_gscale};
  return *all[number];
}

// The tensor of the fault: any of the nine, of the four large ones, of the five scales or of the
// two global ones.
std::int64_t tensor_of_fault(const Case& given) {
  switch (given.fault) {
    case Fault::strides:
      return given.fault_tensor % 4;
    case Fault::scale_bits:
      return 7 + given.fault_tensor % 2;
    case Fault::scale_zero:
    case Fault::scale_denormal:
    case Fault::scale_negative:
    case Fault::scale_nan:
    case Fault::scale_infinite:
      return 4 + given.fault_tensor % 5;
    default:
      return given.fault_tensor % 9;
  }
}

Dtype other_dtype(Dtype dtype) {
  if (dtype == Dtype::u8) return Dtype::f8_e4m3;
  return dtype == Dtype::f8_e4m3 ? Dtype::u8 : Dtype::i32;
}

// The widths of the rank of the fault: of the case, but for faults of the shape.
Shape shape_of_fault(const Case& given) {
  Shape shape = given.shape;
  if (given.fault == Fault::uneven) shape.intermediate += 1;
  if (given.fault == Fault::slice_width) shape.intermediate += 16 * shape.tp;
  if (given.fault == Fault::hidden_width) shape.hidden += 64;
  if (given.fault == Fault::other_shape) shape.hidden += 128;
  return shape;
}

float wrong_scale(Fault fault) {
  switch (fault) {
    case Fault::scale_denormal:
      return std::numeric_limits<float>::denorm_min();
    case Fault::scale_negative:
      return -1.0F;
    case Fault::scale_nan:
      return std::numeric_limits<float>::quiet_NaN();
    case Fault::scale_infinite:
      return std::numeric_limits<float>::infinity();
    default:
      return 0.0F;
  }
}

std::string_view flaw(Fault fault) {
  switch (fault) {
    case Fault::scale_denormal:
      return "denormal";
    case Fault::scale_negative:
      return "negative";
    case Fault::scale_nan:
      return "NaN";
    case Fault::scale_infinite:
      return "infinite";
    default:
      return "zero";
  }
}

void plant(const Case& given, Given& made) {
  Tensor& tensor = tensor_number(made.stock, tensor_of_fault(given));
  switch (given.fault) {
    case Fault::dtype:
      tensor.dtype = other_dtype(tensor.dtype);
      break;
    case Fault::extents: {
      Extents extents = tensor.extents;
      ++extents.back();
      tensor = host_tensor(tensor.dtype, extents);
      break;
    }
    case Fault::strides:
      tensor.strides = {count(tensor.extents), 1, tensor.extents[1]};
      break;
    case Fault::other_total:
      made.experts += given.shape.tp;
      break;
    case Fault::placement:
      ++made.stock.first_expert;
      break;
    case Fault::scale_bits:
      tensor.data.get()[0] ^= 1;
      break;
    case Fault::scale_zero:
    case Fault::scale_denormal:
    case Fault::scale_negative:
    case Fault::scale_nan:
    case Fault::scale_infinite:
      store(tensor.data.get(), wrong_scale(given.fault));
      break;
    default:
      break;  // none, and faults of the shape
  }
}

bool is_of_shape(Fault fault) {
  return fault == Fault::uneven || fault == Fault::slice_width || fault == Fault::hidden_width ||
         fault == Fault::other_shape;
}

// Where two values are held equally often, the lowest rank's stands and the other is named.
std::int64_t named_rank(const Case& given) { return given.shape.tp == 2 ? 1 : given.fault_rank; }

std::string due_of_tensor(const Case& given) {
  const Shape& shape = given.shape;
  experts::StockExperts stock = given_to({shape, given.payload}, 0).stock;
  const std::int64_t number = tensor_of_fault(given);
  const std::string_view name = tensor_names[number];
  const Tensor due = tensor_number(stock, number);
  if (given.fault == Fault::strides) return fmt::format("{} is not contiguous", name);
  if (given.fault == Fault::dtype) {
    return fmt::format("{} is {} {}, expected {}", name, slicecheck::name(other_dtype(due.dtype)),
                       slicecheck::text(due.extents), text(due));
  }
  if (number == 0) {  // w13 says what H is, so that the first tensor that does not follow is w2
    return fmt::format("w2 is {}, expected U8 {}", text(stock.w2),
                       slicecheck::text(Extents{shape.experts_per_rank(), shape.hidden + 2,
                                                shape.intermediate / 2}));
  }
  Extents extents = due.extents;
  ++extents.back();
  return fmt::format("{} is {} {}, expected {}", name, slicecheck::name(due.dtype),
                     slicecheck::text(extents), text(due));
}

std::string due_of_scale(const Case& given) {
  const std::int64_t number = tensor_of_fault(given);
  std::string name(tensor_names[number]);
  if (number < 7) {
    name += fmt::format(" of expert {}", given.fault_rank * given.shape.experts_per_rank());
  }
  return fmt::format("{} is {}: ", name, flaw(given.fault));
}

std::string due_of_widths(const Shape& wrong) {
  return fmt::format("intermediate slice {} and hidden {} must be multiples of 64 and 128",
                     wrong.slice(), wrong.hidden);
}

}  // namespace

Given given_to(const Case& given, std::int64_t rank) {
  const bool faulty = given.fault != Fault::none && rank == given.fault_rank;
  if (!faulty || !is_of_shape(given.fault)) {
    Given made{experts::payload_stock(given.payload, given.shape, rank), given.shape.experts};
    if (faulty) plant(given, made);
    return made;
  }
  // Of other widths, with bytes that nobody may read.
  const Shape shape = shape_of_fault(given);
  const std::int64_t held = shape.experts_per_rank();
  const experts::Scalars scalars = experts::payload_scalars(given.payload.seed, rank * held, held,
                                                            layout::stock_widths(given.shape));
  return {experts::stock_of(shape, scalars, rank * held), shape.experts};
}

std::int64_t misplaced_first(const Case& given, std::int64_t rank) {
  const std::int64_t tp = given.shape.tp;
  const std::int64_t held = given.shape.experts_per_rank();
  const bool faulty = rank == given.fault_rank;
  switch (given.placement) {
    case Placement::round_robin:
      return rank;
    case Placement::permuted:
      return (tp - 1 - rank) * held;
    case Placement::duplicated:
      return (faulty ? (rank + 1) % tp : rank) * held;
    case Placement::rank_lies:
      return rank * held + (faulty ? 1 : 0);
    case Placement::linear:
      break;
  }
  return rank * held;
}

Given misplaced_to(const Case& given, std::int64_t rank) {
  const std::int64_t held = given.shape.experts_per_rank();
  const std::int64_t first = misplaced_first(given, rank);
  const bool whole =
      given.placement == Placement::permuted || given.placement == Placement::duplicated;
  Given made{experts::payload_stock(given.payload, given.shape, whole ? first / held : rank),
             given.shape.experts};
  made.stock.first_expert = first;
  return made;
}

std::string due_sentence(const Case& given) {
  const Shape& shape = given.shape;
  const Shape wrong = shape_of_fault(given);
  const std::int64_t held = shape.experts_per_rank();
  switch (given.fault) {
    case Fault::none:
      return {};
    case Fault::dtype:
    case Fault::extents:
    case Fault::strides:
      return due_of_tensor(given);
    case Fault::uneven:
      return fmt::format("intermediate {} does not split {} ways", wrong.intermediate, shape.tp);
    case Fault::slice_width:
    case Fault::hidden_width:
      return due_of_widths(wrong);
    case Fault::other_shape:
      return "the experts' shapes differ across ranks: ";
    case Fault::other_total:
      return fmt::format("{} ranks x {} experts is not {} experts", shape.tp, held,
                         shape.experts + shape.tp);
    case Fault::placement:
      return fmt::format("rank {} holds experts from {}, not {} (linear placement)",
                         given.fault_rank, given.fault_rank * held + 1, given.fault_rank * held);
    case Fault::scale_bits:
      return fmt::format("the experts' global input scales differ across ranks: {} is ",
                         tensor_names[tensor_of_fault(given)]);
    default:
      return due_of_scale(given);
  }
}

std::string due_name(const Case& given) {
  if (given.fault != Fault::other_shape && given.fault != Fault::scale_bits) return {};
  return fmt::format("but rank {} has ", named_rank(given));
}

}  // namespace slicecheck::properties
