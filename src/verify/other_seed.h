// What one wrong layer or seed did, said once: scales whose bytes alone do not tell the seed that
// the weights tell, and the scalars, which are a rule of the seed too.
#pragma once

#include <set>

#include "verify/places.h"
#include "verify/wrong_scalar.h"

namespace slicecheck::verify {

/// Gives scales of an unknown seed the seed that another wrong tensor names, where it is theirs.
/// What is left of an unknown seed is unexplained where not all scales of its expert are of it.
void name_seeds(const Subject& subject, std::vector<WrongTensor>& wrong);

/// Calls the scalars that are, to the bit, those of another payload whose tensors are among `wrong`
/// Flaw::other_payload.
void name_seeds(const Subject& subject, const std::vector<WrongTensor>& wrong,
                std::vector<WrongScalar>& scalars);

/// Takes out of `scalars` those of a side and of another seed's payload, name by name, that are
/// wrong at exactly these places.
std::vector<WrongScalar> taken(std::vector<WrongScalar>& scalars, Side side, std::uint64_t seed,
                               const std::set<Place>& places);

/// "their seed is 1, that is layer 0 of seed 1, where layer 5 is due".
std::string about_seed(const Subject& subject, std::uint64_t seed);

}  // namespace slicecheck::verify
