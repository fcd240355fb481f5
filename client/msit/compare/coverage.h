// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/match/mapping.h"
#include "client/msit/command/logger.h"

namespace msitd::v1 {
class ComparisonRow;
}  // namespace msitd::v1

namespace msitd::msit_command {

// Counts the tensors that a report compares, and those without a counterpart.
// Thread-compatible.
class Coverage {
 public:
  // Reasons that are distinguished.
  static constexpr size_t kReasonsMax = 64;

  // Adds a row of the comparison, with one side or both.
  void Add(const v1::ComparisonRow& row);

  // Adds tensors that have neither a counterpart nor rows.
  void AddLeft(const match::LeftTensors& left);

  int64_t pair_count() const { return pair_count_; }

  // The tensors of rows with one side, by reason.
  const std::vector<match::LeftTensors>& left() const { return left_; }

  // Logs `<prefix>3 pairs compared, ...<suffix>`, as a warning if tensors lack
  // a counterpart or there is no pair.
  void Tell(std::string_view prefix, std::string_view suffix,
            Logger& log) const;

 private:
  match::LeftTensors& LeftOf(const v1::ComparisonRow& row, bool is_expected);

  std::vector<match::LeftTensors> left_;
  int64_t pair_count_ = 0;
  int64_t unmatched_count_ = 0;
  int64_t expected_count_ = 0;
};

}  // namespace msitd::msit_command
