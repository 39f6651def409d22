// A rank's stock of a case, sound or with the case's fault, and the sentence that the fault
// deserves.
#pragma once

#include <string>

#include "experts/experts.h"
#include "properties/generators/case.h"

namespace slicecheck::properties {

/// What a rank brings to a reshard.
struct Given {
  experts::StockExperts stock;
  std::int64_t experts = 0;  // that it expects of the layer
};

/// What rank `rank` brings in a case: its stock by the payload, and on the rank of the fault
/// something wrong with it.
Given given_to(const Case& given, std::int64_t rank);

/// How every rank's refusal of the case begins, after what stands before every refusal; worked out
/// from the case, not from the code that refuses.
std::string due_sentence(const Case& given);

/// What else stands in it: the rank that is named as the odd one out; empty for faults that one
/// rank sees by itself.
std::string due_name(const Case& given);

/// The first expert that rank `rank` holds, and says that it holds, in a misplaced case: every rank
/// the first of a round, or of the rank that mirrors it; the rank of the fault that of the next
/// one, or one beyond its own.
std::int64_t misplaced_first(const Case& given, std::int64_t rank);

/// What rank `rank` brings in a misplaced case: the experts that it says it holds.
Given misplaced_to(const Case& given, std::int64_t rank);

}  // namespace slicecheck::properties
