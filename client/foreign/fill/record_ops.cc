// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/record_ops.h"

#include <algorithm>
#include <iterator>

namespace msitd::fill {
namespace {

// The record of a tensor of which only type and shape are known.
constexpr std::string_view kNoStatistics = "{}";

// Tools whose dumps contain such a tensor for an argument that the task did not
// have. In dumps of other tools, such an argument exists and may have no
// elements.
bool RecordsAbsentArguments(std::string_view source) {
  constexpr std::string_view kSources[] = {"ge", "fx", "mindie", "atb"};
  return std::find(std::begin(kSources), std::end(kSources), source) !=
         std::end(kSources);
}

}  // namespace

RecordOps::RecordOps(std::string_view source)
    : has_absent_(RecordsAbsentArguments(source)) {}

absl::Status RecordOps::Add(const Record& record) {
  if (record.kind != RecordKind::kTensor &&
      record.kind != RecordKind::kStatistics) {
    return absl::OkStatus();
  }
  ++count_;
  // Arguments that the task did not have are not counted among the others.
  if (has_absent_ && record.value == kNoStatistics) return absl::OkStatus();
  builder_.GoToRank(record.rank);
  return builder_.Add(record.op, record.call, record.io, record.index,
                      {record.shape.begin(), record.shape.end()},
                      record.size_bytes);
}

}  // namespace msitd::fill
