// The report's schema as the program's own laws hold it: the file of the repository, built in, and
// the part of JSON Schema 2020-12 that it is written in.
#pragma once

#include <string_view>

#include "base/reason.h"

namespace slicecheck::properties {

/// The text of slicecheck-report-1.schema.json.
std::string_view report_schema();

/// Why `text` is not JSON that fits the report's schema: the place and the keyword; or nothing.
/// A keyword that this does not know is a bug, never passed over.
Reason unfit(std::string_view text);

}  // namespace slicecheck::properties
