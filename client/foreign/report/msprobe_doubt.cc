// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_doubt.h"

#include <fmt/format.h>

#include <variant>

#include "client/ask/report/schema/row_fields.h"
#include "client/foreign/report/msprobe_leaf_name.h"
#include "client/foreign/report/msprobe_statistics.h"
#include "client/foreign/report/msprobe_value.h"

namespace msitd::report {
namespace {

using Kind = MsprobeStatistic::Kind;

bool IsNumberOrTruth(const MsprobeStatistic& one) {
  return (one.kind != Kind::kAbsent && one.kind != Kind::kOther) ||
         std::holds_alternative<ask::Truth>(one.cell);
}

// Returns true if both sides have the values that the rules use. Texts and
// `None` do not have them.
bool AreComparable(const MsprobeStatistics& target,
                   const MsprobeStatistics& golden) {
  bool has_pair = false;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i].kind == Kind::kAbsent || golden[i].kind == Kind::kAbsent) {
      return false;
    }
    has_pair |= IsNumberOrTruth(target[i]) && IsNumberOrTruth(golden[i]);
  }
  return has_pair;
}

// Returns true if checksums prove that statistics are not those of equal bytes.
bool ChecksumsDiffer(const v1::ComparisonRow& row, const MsprobeRow& judged) {
  return !IsTensor(row.target()) && !IsTensor(row.golden()) &&
         !judged.has_two_kinds_of_hash && !judged.target_hash.empty() &&
         !judged.golden_hash.empty() &&
         judged.target_hash != judged.golden_hash;
}

// Returns true if a statistic that is not finite is the same on both sides.
bool AreFiniteAlike(const MsprobeStatistics& target,
                    const MsprobeStatistics& golden) {
  for (size_t i = 0; i < target.size(); ++i) {
    const bool is_infinity = target[i].kind == Kind::kInfinity;
    if (target[i].kind != golden[i].kind ||
        (is_infinity && target[i].number != golden[i].number)) {
      return false;
    }
  }
  return true;
}

// Returns true if msprobe's rules can judge how much two tensors differ.
bool CanBeJudged(const v1::ComparisonRow& row, MsprobeMode mode,
                 const MsprobeRow& judged) {
  if (IsMsprobeValue(row.target()) || IsMsprobeValue(row.golden()) ||
      !AreFiniteAlike(judged.target, judged.golden)) {
    return false;
  }
  if (mode == MsprobeMode::kAll) {
    return ask::MetricOf(row, "msprobe_max_abs").has_value();
  }
  return mode == MsprobeMode::kSummary && !ChecksumsDiffer(row, judged) &&
         AreComparable(judged.target, judged.golden);
}

}  // namespace

void SetDoubt(const v1::ComparisonRow& row, MsprobeMode mode, bool trusts_rules,
              MsprobeRow& judged) {
  if (!judged.is_matched) {
    judged.doubt = "No bench data matched.";
  } else if (row.verdict() == v1::FAIL) {
    if (trusts_rules && CanBeJudged(row, mode, judged)) return;
    judged.doubt = fmt::format("The comparison fails: {}", row.reason());
  } else if (row.verdict() != v1::PASS) {
    judged.doubt = fmt::format("It is not compared: {}", row.reason());
    judged.rules_settle_doubt =
        mode == MsprobeMode::kMd5 ||
        (mode == MsprobeMode::kSummary && !ChecksumsDiffer(row, judged) &&
         AreComparable(judged.target, judged.golden));
  }
}

}  // namespace msitd::report
