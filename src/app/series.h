// What many measurements of one thing say.
#pragma once

#include <vector>

namespace slicecheck::app {

/// Median, 95th percentile, coefficient of variation.
struct Series {
  double median = 0;
  double p95 = 0;
  double variation = 0;
};

/// Of at least one value.
Series series_of(std::vector<double> values);

}  // namespace slicecheck::app
