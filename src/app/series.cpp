#include "app/series.h"

#include <algorithm>
#include <cmath>

namespace slicecheck::app {

Series series_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  const double variance = std::max(0.0, squares / count - mean * mean);
  const std::size_t late = (values.size() * 95 + 99) / 100 - 1;
  return {values[values.size() / 2], values[late], std::sqrt(variance) / mean};
}

}  // namespace slicecheck::app
