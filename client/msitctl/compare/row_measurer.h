// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/plugin/plugin.h"
#include "client/ask/query/outcome.h"
#include "client/msitctl/compare/metric.h"
#include "client/msitctl/invocation.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msitctl {

// Passes the bytes of one row after another to plug-ins, and their results to
// the daemon. Holds one pair, and metrics until there are enough for a call, or
// some time has passed. Thread-compatible.
class RowMeasurer {
 public:
  // Borrows all arguments.
  RowMeasurer(Invocation& invocation,
              const std::vector<std::unique_ptr<ask::Plugin>>& plugins,
              uint64_t pair_bytes_max, v1::Comparison& comparison,
              std::vector<MetricCounts>& counts);

  // Measures a row. If this is not possible, the text of its metrics is the
  // reason.
  ask::Outcome Add(const v1::ComparisonRow& row);

  // Sends the remaining metrics.
  ask::Outcome Flush();

 private:
  using Clock = std::chrono::steady_clock;

  // Reads the bytes of both sides. `why_not` receives the reason if a row is
  // not measured; there are no bytes then.
  ask::Outcome ReadPair(const v1::ComparisonRow& row,
                        ask::TensorPairBytes& pair, std::string& why_not);
  ask::Outcome ReadSide(const char* side, const v1::ComparedTensor& tensor,
                        std::string& bytes, std::string& why_not);
  // Returns the reason that can be determined without the bytes.
  std::string WhyNot(const v1::ComparisonRow& row) const;
  bool AllGivenUp() const;

  Invocation& invocation_;
  const std::vector<std::unique_ptr<ask::Plugin>>& plugins_;
  const uint64_t pair_bytes_max_;
  v1::Comparison& comparison_;
  std::vector<MetricCounts>& counts_;
  std::string golden_;
  std::string target_;
  v1::AddRowMetricsRequest request_;
  size_t request_bytes_ = 0;
  Clock::time_point flush_time_ = Clock::now();
};

}  // namespace msitd::msitctl
