// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/run_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "daemon/ingest/ingest_errors.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::ingest {

absl::StatusOr<capture::Policy> RunKeeper::SetCapturePolicy(
    std::string_view run, capture::Policy policy,
    std::optional<int64_t> first_token, const access::Caller& caller) {
  // Use the longest possible numbers, so that a policy that fits here also fits
  // with its final numbers.
  policy.revision = std::numeric_limits<uint64_t>::max();
  policy.first_token = kTokenMax;
  if (capture::Policies alone; !capture::Add(policy, alone)) {
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "the policy is over {} bytes long",
                                 capture::kPoliciesBytesMax),
                      ErrorReason::kFieldInvalid);
  }
  const RunHold hold(held_, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  StreamSpec spec;
  spec.run = std::string(run);
  spec.caller = caller;
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, CreateOrGetRun(spec));
  if (info.sealed) return RunSealed(run, "is sealed");
  if (info.spec.restoring) return storage::RunRestoring(run);
  capture::Policies policies;
  if (!info.capture_policy.empty() &&
      !capture::Decode(info.capture_policy, policies)) {
    return absl::DataLossError("the capture policy of the run is damaged");
  }
  policy.revision = policies.empty() ? 1 : policies.back().revision + 1;
  policy.first_token = std::min(first_token.value_or(chunks_.FirstTokenAhead(
                                    run, info.counters.token_end)),
                                kTokenMax);
  MSITD_CHECK(capture::Add(policy, policies));
  auto encoded = std::make_shared<const std::string>(capture::Encode(policies));
  MSITD_RETURN_IF_ERROR(runs_.SetCapturePolicy(run, *encoded).status());
  chunks_.SendPolicy(run, std::move(encoded));
  return policy;
}

absl::Status RunKeeper::CheckHeldRun(std::string_view run,
                                     const access::Caller& caller) {
  const absl::StatusOr<storage::RunInfo> found = runs_.GetRun(run);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(found.status());
  return access::CheckOwner(caller, found->spec.owner,
                            fmt::format("run '{}'", run));
}

absl::StatusOr<storage::RunInfo> RunKeeper::SealRun(
    std::string_view run, const access::Caller& caller) {
  const RunHold hold(held_, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  if (caller != access::Daemon()) {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, runs_.GetRun(run));
    if (info.spec.restoring) return storage::RunRestoring(run);
  }
  chunks_.EndStreamsOf(run, "was sealed", /*discards=*/false);
  chunks_.ForgetActivity(run);
  return runs_.SealRun(run);
}

absl::Status RunKeeper::DeleteRun(std::string_view run,
                                  const access::Caller& caller) {
  const RunHold hold(held_, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  return DeleteHeldRun(run, "was deleted");
}

absl::StatusOr<storage::RunInfo> RunKeeper::ChangeRetention(
    std::string_view run, const access::Caller& caller,
    absl::FunctionRef<absl::Status(storage::RunRetention&)> change) {
  const RunHold hold(held_, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo found, runs_.GetRun(run));
  storage::RunRetention retention = found.retention;
  MSITD_RETURN_IF_ERROR(change(retention));
  return runs_.SetRetention(run, retention);
}

absl::Status RunKeeper::ChangeRun(std::string_view run,
                                  const access::Caller& caller,
                                  absl::FunctionRef<absl::Status()> change) {
  const RunHold hold(held_, run);
  MSITD_RETURN_IF_ERROR(CheckHeldRun(run, caller));
  return change();
}

absl::Status RunKeeper::DeleteHeldRun(std::string_view run,
                                      std::string_view what) {
  chunks_.EndStreamsOf(run, what, /*discards=*/true);
  chunks_.ForgetActivity(run);
  return runs_.DeleteRun(run);
}

}  // namespace msitd::ingest
