// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/run_keep.h"

#include <fmt/format.h>

#include <utility>

#include "client/ask/text/text.h"
#include "client/msitctl/run/import_place.h"

namespace msitd::msitctl {
namespace {

using Stub = v1::CaptureService::Stub;

// Returns the level for records that are sent. All results of a function are
// kept.
v1::CaptureLevel LevelOf(const std::string& keep) {
  if (keep == "summary") return v1::CAPTURE_LEVEL_SUMMARY;
  return keep == "sample" ? v1::CAPTURE_LEVEL_SAMPLE : v1::CAPTURE_LEVEL_FULL;
}

bool KeepsAt(const v1::CapturePolicy& policy, v1::CaptureLevel level) {
  return policy.rules_size() == 1 && policy.rules(0).level() == level &&
         policy.rules(0).filter().ByteSizeLong() == 0;
}

}  // namespace

ask::Outcome RunKeep::LoadFunction(ask::StopCheck is_stopped) {
  if (!IsKeepFunction(flags_.keep)) return {};
  return KeepFunction::Create(flags_, std::move(is_stopped), function_);
}

bool RunKeep::is_full() const {
  return LevelOf(flags_.keep) == v1::CAPTURE_LEVEL_FULL;
}

ask::Outcome RunKeep::SetPolicy(const std::string& run, bool must_be_whole) {
  if (is_full() && !must_be_whole) return {};
  v1::CapturePolicy policy;
  MSITCTL_RETURN_IF_FAILED(
      invocation_.AskByName(&Stub::GetCapturePolicy, run, policy));
  policy_revision_ = policy.revision();
  if (is_full() && policy_revision_ == 0) return {};
  if (is_full()) {
    return ask::UsageError(
        fmt::format("run {} has a capture policy that may keep less than the "
                    "files contain: use --delete with --keep summary or "
                    "sample, or import into another run",
                    run));
  }
  const v1::CaptureLevel level = LevelOf(flags_.keep);
  if (policy_revision_ > 0) {
    if (KeepsAt(policy, level)) return {};
    return ask::UsageError(fmt::format(
        "run {} has a capture policy, which --keep {} cannot change", run,
        flags_.keep));
  }
  v1::SetCapturePolicyRequest request;
  request.set_run(run);
  request.mutable_policy()->set_first_token(0);
  request.mutable_policy()->add_rules()->set_level(level);
  MSITCTL_RETURN_IF_FAILED(
      invocation_.AskToTheEnd(&Stub::SetCapturePolicy, request, policy));
  policy_revision_ = policy.revision();
  return {};
}

ask::Outcome RunKeep::SetFunction(const v1::Run& run,
                                  fill::ImportTarget& attach) {
  KeepRecord held;
  MSITCTL_RETURN_IF_FAILED(ReadKeepRecord(invocation_, run.name(), held));
  if (function_ == nullptr && held.hash.empty()) return {};
  if (function_ == nullptr || !held.hash.empty()) {
    if (function_ != nullptr && held.is_same(function_->record())) return {};
    return ask::UsageError(
        fmt::format("run {} was imported with {}: import into another run, or "
                    "use the same function",
                    ask::Printable(run.name()), held.ToText()));
  }
  if (run.counters().tensor_count() > 0) {
    return ask::UsageError(
        fmt::format("run {} has tensors that were imported without a function: "
                    "import into another run",
                    ask::Printable(run.name())));
  }
  return OutcomeOfImport(
      attach.Attach(kKeepAttachment, "application/json", function_->ToJson()));
}

}  // namespace msitd::msitctl
