// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/compare/metric.h"
#include "client/ctl/invocation.h"
#include "client/ctl/plugin/plugin.h"
#include "client/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::ctl {

// Gives the bytes of row after row to plug-ins and the daemon what they say.
// Holds one pair, and metrics until there are enough for a call, or some time
// has passed. Thread-compatible.
class RowMeasurer {
 public:
  // Borrows all of them.
  RowMeasurer(Invocation& invocation,
              const std::vector<std::unique_ptr<Plugin>>& plugins,
              uint64_t pair_bytes_max, v1::Comparison& comparison,
              std::vector<MetricCounts>& counts);

  // Measures a row. A row that cannot be measured has that for a text.
  Outcome Add(const v1::ComparisonRow& row);

  // Hands over what is left.
  Outcome Flush();

 private:
  using Clock = std::chrono::steady_clock;

  // Reads the bytes of both sides. `why_not` says why a row is not measured;
  // then it has none.
  Outcome ReadPair(const v1::ComparisonRow& row, TensorPairBytes& pair,
                   std::string& why_not);
  Outcome ReadSide(const char* side, const v1::ComparedTensor& tensor,
                   std::string& bytes, std::string& why_not);
  // What can be told without the bytes.
  std::string WhyNot(const v1::ComparisonRow& row) const;
  bool AllGivenUp() const;

  Invocation& invocation_;
  const std::vector<std::unique_ptr<Plugin>>& plugins_;
  const uint64_t pair_bytes_max_;
  v1::Comparison& comparison_;
  std::vector<MetricCounts>& counts_;
  std::string golden_;
  std::string target_;
  v1::AddRowMetricsRequest request_;
  size_t request_bytes_ = 0;
  Clock::time_point flush_time_ = Clock::now();
};

}  // namespace msitd::ctl
