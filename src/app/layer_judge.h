// A whole layer of one process judged as `verify` judges a dump: every rank's stock and tp experts
// against a payload's reference, or against the stocks as the only one.
#pragma once

#include "faults/mutants.h"
#include "verify/evidence.h"
#include "verify/name.h"

namespace slicecheck::app {

/// What a mutant's layer is about: with its payload and the scalars due by it, or without.
verify::Subject subject_of(const faults::Mutant& mutant, bool by_payload);

/// The evidence of all ranks. Not by a payload: the stocks are what the reference was made of.
verify::Evidence evidence_of(verify::Judge& judge, const faults::Layer& layer, bool by_payload);

/// The findings of `layer` where its stocks are the only reference.
std::vector<report::Finding> beside_true_stocks(const faults::Mutant& mutant,
                                                const faults::Layer& layer);

}  // namespace slicecheck::app
