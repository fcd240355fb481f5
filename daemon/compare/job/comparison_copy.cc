// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_copy.h"

#include <limits>
#include <vector>

#include "daemon/compare/job/comparison_job.h"
#include "google/protobuf/util/time_util.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// No part of a comparison is nested more deeply.
constexpr int kMessageDepthMax = 8;

absl::Status NoComparison(std::string_view what) {
  return MakeStatus(absl::StatusCode::kDataLoss, "{}", what);
}

bool IsRunName(const std::string& name) {
  return !name.empty() && name.size() <= kRunNameBytesMax &&
         name.find('\0') == std::string::npos;
}

absl::StatusOr<v1::Comparison> ParseDocument(std::string_view document) {
  v1::Comparison out;
  // The parser takes the size as an int.
  if (document.size() > size_t{std::numeric_limits<int>::max()} ||
      !out.ParseFromArray(document.data(), static_cast<int>(document.size()))) {
    return NoComparison("the document is no comparison");
  }
  constexpr int64_t kCountMax = int64_t{1} << 48;
  for (const int64_t count : {out.pass_count(), out.fail_count(),
                              out.unmatched_count(), out.skipped_count()}) {
    if (count < 0 || count > kCountMax) {
      return NoComparison("the comparison counts what cannot be");
    }
  }
  if (!IsRunName(out.golden_run()) || !IsRunName(out.target_run()) ||
      !v1::Comparison::State_IsValid(out.state())) {
    return NoComparison("the document is no comparison");
  }
  return out;
}

ComparisonBrief BriefOf(const v1::Comparison& comparison) {
  ComparisonBrief out;
  out.golden_run = comparison.golden_run();
  out.target_run = comparison.target_run();
  out.is_golden_local = comparison.golden_source().empty();
  out.is_target_local = comparison.target_source().empty();
  out.has_ended = HasEnded(comparison);
  out.row_count = static_cast<uint64_t>(RowCount(comparison));
  out.create_time_ns = google::protobuf::util::TimeUtil::TimestampToNanoseconds(
      comparison.create_time());
  out.custom_metric_count = comparison.custom_metrics_size();
  return out;
}

// Replaces the run `from` in the name of a tensor by `to`.
void Rename(v1::ComparedTensor& tensor, const std::string& from,
            const std::string& to) {
  auto key = ParseTensorName(tensor.name());
  if (!key.has_value() || key->run != from) return;
  tensor.set_name(FormatTensorName(to, *key));
}

void Rename(v1::ComparisonRow& row, const ComparisonBrief& brief,
            const ComparisonMove& move) {
  if (row.has_target()) {
    Rename(*row.mutable_target(), brief.target_run, move.target_run);
  }
  // In a comparison of a run with itself, the golden side has the same name.
  if (row.has_golden() && brief.is_golden_local &&
      brief.golden_run == brief.target_run) {
    Rename(*row.mutable_golden(), brief.target_run, move.target_run);
  }
}

// Renames the target run in all rows that a message contains.
void RenameWithin(google::protobuf::Message& message,
                  const ComparisonBrief& brief, const ComparisonMove& move,
                  int depth) {
  if (depth == kMessageDepthMax) return;
  if (message.GetDescriptor() == v1::ComparisonRow::descriptor()) {
    Rename(static_cast<v1::ComparisonRow&>(message), brief, move);
    return;
  }
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* const field : fields) {
    if (field->message_type() == nullptr) continue;
    if (!field->is_repeated()) {
      RenameWithin(*reflection.MutableMessage(&message, field), brief, move,
                   depth + 1);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      RenameWithin(*reflection.MutableRepeatedMessage(&message, field, i),
                   brief, move, depth + 1);
    }
  }
}

}  // namespace

absl::StatusOr<ComparisonBrief> BriefOfComparison(std::string_view document) {
  MSITD_ASSIGN_OR_RETURN(const v1::Comparison comparison,
                         ParseDocument(document));
  return BriefOf(comparison);
}

absl::StatusOr<std::string> MoveComparison(std::string_view document,
                                           std::string_view target_run,
                                           const ComparisonMove& move) {
  MSITD_ASSIGN_OR_RETURN(v1::Comparison comparison, ParseDocument(document));
  const ComparisonBrief brief = BriefOf(comparison);
  if (brief.target_run != target_run || !brief.is_target_local ||
      !brief.has_ended) {
    return NoComparison("the comparison is none of the run that has ended");
  }
  if (move.target_run != target_run) RenameWithin(comparison, brief, move, 0);
  if (brief.is_golden_local && brief.golden_run == brief.target_run) {
    comparison.set_golden_run(move.target_run);
  }
  comparison.clear_name();
  comparison.set_target_run(move.target_run);
  comparison.set_owner(move.owner);
  comparison.set_restored_from(move.restored_from);
  // Another comparison may have this name here.
  comparison.clear_judged_comparison();
  return comparison.SerializeAsString();
}

absl::StatusOr<std::string> HoldComparison(std::string_view moved) {
  MSITD_ASSIGN_OR_RETURN(const v1::Comparison whole, ParseDocument(moved));
  v1::Comparison out;
  out.set_golden_run(whole.golden_run());
  out.set_target_run(whole.target_run());
  out.set_owner(whole.owner());
  out.set_restored_from(whole.restored_from());
  *out.mutable_create_time() = whole.create_time();
  out.set_state(v1::Comparison::FAILED);
  out.set_error("not all of it is restored yet");
  out.set_first_hopeless_row(-1);
  return out.SerializeAsString();
}

absl::StatusOr<std::string> MoveComparisonRow(std::string_view bytes,
                                              uint64_t row,
                                              const ComparisonBrief& brief,
                                              const ComparisonMove& move) {
  v1::ComparisonRow out;
  if (bytes.size() > size_t{std::numeric_limits<int>::max()} ||
      !out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      static_cast<uint64_t>(out.row()) != row) {
    return MakeStatus(absl::StatusCode::kDataLoss, "row {} is none", row);
  }
  if (move.target_run == brief.target_run) return std::string(bytes);
  Rename(out, brief, move);
  return out.SerializeAsString();
}

}  // namespace msitd::compare
