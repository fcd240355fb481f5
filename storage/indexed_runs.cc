// SPDX-License-Identifier: Apache-2.0
#include "storage/indexed_runs.h"

#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status CheckRunName(std::string_view name) {
  if (name.size() > kRunNameBytesMax) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "the run name is {} bytes long, at most {} may be",
                   name.size(), kRunNameBytesMax),
        ErrorReason::kNameTooLong);
  }
  if (name.empty() || name.find('\0') != std::string_view::npos ||
      !IsValidUtf8(name)) {
    return WithReason(
        absl::InvalidArgumentError(
            "the run name is empty, or no UTF-8 text without NUL"),
        ErrorReason::kNameInvalid);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunInfo> IndexedRuns::CreateRun(const RunSpec& spec) {
  MSITD_RETURN_IF_ERROR(CheckRunName(spec.name));
  MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
  return index_->CreateRun(spec, env_.NowNs());
}

absl::StatusOr<RunInfo> IndexedRuns::GetRun(std::string_view name) {
  return index_->runs().Get(name);
}

absl::StatusOr<std::vector<RunInfo>> IndexedRuns::ListRuns(
    std::string_view after, size_t limit) {
  return index_->runs().List(after, limit);
}

absl::StatusOr<RunInfo> IndexedRuns::SealRun(std::string_view name) {
  absl::StatusOr<RunInfo> sealed;
  MSITD_RETURN_IF_ERROR(appends_.Change(name, [&] {
    sealed = index_->SealRun(name, env_.NowNs());
    return sealed.status();
  }));
  return sealed;
}

absl::Status IndexedRuns::DeleteRun(std::string_view name) {
  MSITD_RETURN_IF_ERROR(
      appends_.Change(name, [&] { return index_->HideRun(name); }));
  on_hidden_();
  return absl::OkStatus();
}

absl::StatusOr<RunInfo> IndexedRuns::SetWorldSize(std::string_view name,
                                                  int32_t world_size) {
  return index_->SetWorldSize(name, world_size);
}

absl::StatusOr<RunInfo> IndexedRuns::SetJob(std::string_view name,
                                            std::string_view job) {
  return index_->SetJob(name, job);
}

absl::StatusOr<RunContinuations> IndexedRuns::GetContinuations(
    std::string_view name, int32_t rank) {
  return index_->GetContinuations(name, rank);
}

absl::Status IndexedRuns::SetContinuations(
    std::string_view name, int32_t rank, const RunContinuations& continuations,
    bool has_new_job) {
  MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
  return index_->SetContinuations(name, rank, continuations, has_new_job);
}

absl::StatusOr<RunInfo> IndexedRuns::EndRestore(std::string_view name) {
  return index_->EndRestore(name);
}

absl::StatusOr<RunInfo> IndexedRuns::SetRetention(
    std::string_view name, const RunRetention& retention) {
  return index_->SetRetention(name, retention);
}

absl::StatusOr<RunInfo> IndexedRuns::SetCapturePolicy(std::string_view name,
                                                      std::string_view policy) {
  MSITD_RETURN_IF_ERROR(room_.EnsureForRecord());
  return index_->SetCapturePolicy(name, policy);
}

}  // namespace msitd::storage
