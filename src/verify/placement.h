// Whole experts in other slots: which order the slots hold, and what that order is called.
#pragma once

#include "verify/name.h"

namespace slicecheck::verify {

/// Which expert every slot holds, as far as its bytes say: the stocks' E slots, and each rank's E
/// tp slots.
struct Orders {
  std::vector<std::int64_t> stock;
  std::vector<std::vector<std::int64_t>> tp;  // [tp][E]
};

/// The order that the four tensors of each slot agree on.
Orders orders_of(const Subject& subject, const std::vector<WrongTensor>& wrong);

/// Replaces "another expert's bytes" in every tensor by what the whole order is called:
/// round-robin, permuted, duplicated, mixed, rank order, or slices transposed with the expert axis.
/// A rank that declares another first expert and holds it is not wrong here. Tensors left without a
/// cause go.
void name_placement(const Subject& subject, const Evidence& evidence, const Orders& orders,
                    std::vector<WrongTensor>& wrong);

/// Adds the finding of ranks that declare another first expert than linear placement has.
void add_declared(const Subject& subject, const Evidence& evidence,
                  std::vector<report::Finding>& made);

}  // namespace slicecheck::verify
