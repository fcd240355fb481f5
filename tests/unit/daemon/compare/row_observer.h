// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "daemon/compare/job/comparison_observer.h"

namespace msitd::compare {

// Returns a metric of a row by its name, or nothing if the row does not have
// it.
inline std::optional<double> MetricOf(const v1::ComparisonRow& row,
                                      std::string_view name) {
  for (const v1::MetricValue& value : row.metrics()) {
    if (value.metric() == name) return value.value();
  }
  return std::nullopt;
}

// Keeps the rows and other results of a comparison. Expects that it is called
// only by the thread that created it.
class RowObserver final : public ComparisonObserver {
 public:
  absl::Status Check() override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    return is_cancelled && is_cancelled() ? absl::CancelledError("cancelled")
                                          : absl::OkStatus();
  }
  v1::Comparison& header() override { return comparison; }
  void OnRead(uint64_t bytes) override { read_bytes += bytes; }
  absl::Status OnRow(const v1::ComparisonRow& row, std::string bytes) override {
    AccountRow(row, comparison);
    EXPECT_EQ(row.metrics_size(), 0);
    EXPECT_TRUE(rows.emplace_back().ParseFromString(bytes));
    return absl::OkStatus();
  }

  // Returns whether the comparison is cancelled; may be empty.
  std::function<bool()> is_cancelled;
  uint64_t read_bytes = 0;
  std::vector<v1::ComparisonRow> rows;
  v1::Comparison comparison;

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace msitd::compare
