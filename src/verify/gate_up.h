// A checkpoint whose gate and up carry different weight scales, seen where one is cut.
#pragma once

#include <optional>

#include "verify/name.h"

namespace slicecheck::verify {

/// The finding of a checkpoint's experts whose w1 and w3 carry different weight_scale_2; nothing
/// where none does, or where the due values are a payload's.
///
/// The op has one scale for both halves, g1_alphas, unless g1_scale_c carries the ratio w3 / w1:
/// then each half is read with its own and the finding is a warning. Else up is read with gate's
/// scale: an error.
std::optional<report::Finding> gate_up_mismatch(const Subject& subject, const Evidence& evidence);

/// True for a g1_scale_c that is the due one times the ratio w3 / w1 of `expert`.
bool carries_up(const DueScalars& due, std::int64_t expert, float scale_c);

}  // namespace slicecheck::verify
