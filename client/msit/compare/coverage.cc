// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/foreign/match/limits.h"
#include "msitd/v1/comparison_service.pb.h"

namespace msitd::msit_command {
namespace {

constexpr char kOtherReasons[] = "other reasons";

}  // namespace

match::LeftTensors& Coverage::LeftOf(const v1::ComparisonRow& row,
                                     bool is_expected) {
  std::string reason =
      left_.size() < kReasonsMax ? row.reason() : kOtherReasons;
  const bool is_golden = row.has_golden();
  const auto found =
      std::find_if(left_.begin(), left_.end(), [&](const auto& left) {
        return left.is_golden == is_golden && left.is_expected == is_expected &&
               left.reason == reason;
      });
  if (found != left_.end()) return *found;
  left_.push_back({.is_golden = is_golden,
                   .is_expected = is_expected,
                   .reason = std::move(reason),
                   .examples = {}});
  return left_.back();
}

void Coverage::Add(const v1::ComparisonRow& row) {
  if (row.has_golden() && row.has_target()) {
    ++pair_count_;
    return;
  }
  const bool is_expected = row.verdict() == v1::SKIPPED;
  ++(is_expected ? expected_count_ : unmatched_count_);
  match::LeftTensors& left = LeftOf(row, is_expected);
  ++left.count;
  std::vector<std::string>& examples = left.examples;
  const bool is_known = !examples.empty() && examples.back() == row.op();
  if (!is_known && examples.size() < match::kExamplesMax) {
    examples.push_back(row.op());
  }
}

void Coverage::AddLeft(const match::LeftTensors& left) {
  (left.is_expected ? expected_count_ : unmatched_count_) +=
      static_cast<int64_t>(left.count);
}

void Coverage::Tell(std::string_view prefix, std::string_view suffix,
                    Logger& log) const {
  const std::string text = fmt::format(
      "{}{} pairs compared, {} tensors unmatched, {} need no counterpart{}",
      prefix, pair_count_, unmatched_count_, expected_count_, suffix);
  if (unmatched_count_ > 0 || pair_count_ == 0) {
    log.Warning(text);
  } else {
    log.Info(text);
  }
}

}  // namespace msitd::msit_command
