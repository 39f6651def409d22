// A payload whose plain experts had other widths than is declared: more or less padding. Every unit
// is numbered by the widths, so nearly all bytes differ, and yet one statement says all.
#pragma once

#include <optional>
#include <vector>

#include "verify/reference.h"
#include "verify/wrong_scalar.h"

namespace slicecheck::verify {

/// The widths, multiples of 16 and not those that are declared, with which the payload's expert,
/// padded to the layer's, gives every byte of `got`; nothing where there are none, or no payload.
/// Several may: of a slice that ends before the data does, I is only known to be larger.
std::optional<layout::Widths> other_widths(const Reference& reference, const Target& target,
                                           Bytes got);

/// Takes out of `scalars` those that are the payload's with the widths that `wrong` tensors have:
/// a scalar is made from the widths too.
void drop_scalars_of_other_widths(const Subject& subject, const std::vector<WrongTensor>& wrong,
                                  std::vector<WrongScalar>& scalars);

}  // namespace slicecheck::verify
