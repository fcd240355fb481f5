// SPDX-License-Identifier: Apache-2.0
#include "client/msit/pair/private_runs.h"

#include <grpcpp/client_context.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "client/ask/query/connection.h"
#include "client/ask/query/endpoint.h"
#include "client/libmsit/core/delivery/stream_end.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/error_reason.h"
#include "protos/status/status.h"

namespace msitd::msit_command {

absl::Status StatusOf(const ask::Outcome& outcome) {
  if (outcome.ok()) return absl::OkStatus();
  return outcome.exit_code == ask::kExitInterrupted
             ? absl::CancelledError("interrupted")
             : absl::InternalError(outcome.error);
}

bool SaysDiskFull(std::string_view stream_error) {
  return libmsit::ReasonOfEnd(stream_error) ==
         ErrorReasonName(ErrorReason::kDiskFull);
}

absl::Status DiskFullError(std::string_view stream_error) {
  std::error_code error;
  return MakeStatus(
      absl::StatusCode::kResourceExhausted,
      "TMPDIR: {} does not have enough space for the compared tensors: {}",
      std::filesystem::temp_directory_path(error).string(), stream_error);
}

PrivateRuns::PrivateRuns(ask::Interrupts& interrupts)
    : interrupts_(interrupts) {}

PrivateRuns::~PrivateRuns() = default;

absl::StatusOr<std::unique_ptr<PrivateRuns>> PrivateRuns::Start(
    ask::Interrupts& interrupts) {
  std::unique_ptr<PrivateRuns> made(new PrivateRuns(interrupts));
  std::error_code error;
  ask::PrivateDaemonOptions options;
  options.data_dir = std::filesystem::temp_directory_path(error).string();
  if (error) return ErrnoStatus(error.value(), "find a temporary folder");
  MSITD_ASSIGN_OR_RETURN(made->daemon_,
                         ask::PrivateDaemon::Start(options, interrupts));
  MSITD_ASSIGN_OR_RETURN(made->target_,
                         ask::ParseEndpoint(made->daemon_->endpoint()));
  made->connection_ = made->NewConnection();
  return made;
}

std::unique_ptr<ask::Connection> PrivateRuns::NewConnection() const {
  ask::ConnectionOptions options;
  options.endpoint = daemon_->endpoint();
  options.target = target_;
  return std::make_unique<ask::Connection>(std::move(options), interrupts_);
}

absl::Status PrivateRuns::Compare(v1::Comparison& comparison,
                                  const TakeRow& take) {
  v1::CreateComparisonRequest request;
  *request.mutable_comparison() = comparison;
  v1::Policy& policy = *request.mutable_comparison()->mutable_policy();
  if (policy.preset() == v1::Policy::PRESET_UNSPECIFIED) {
    policy.set_preset(v1::Policy::MSIT);
  }
  MSITD_RETURN_IF_ERROR(StatusOf(connection_->Ask(
      &v1::ComparisonService::Stub::CreateComparison, request, comparison)));
  grpc::ClientContext context;
  context.set_deadline(connection_->StreamDeadline());
  const ask::Interrupts::Hold hold(interrupts_, &context);
  const auto stream =
      connection_->stub<v1::ComparisonService::Stub>().StreamComparisonRows(
          &context,
          ask::RequestFor<v1::StreamComparisonRowsRequest>(comparison.name()));
  v1::StreamComparisonRowsResponse part;
  absl::Status taken;
  while (taken.ok() && stream->Read(&part)) {
    comparison = part.comparison();
    for (const v1::ComparisonRow& row : part.rows()) {
      taken = take(comparison, row);
      if (!taken.ok()) break;
    }
  }
  if (!taken.ok()) context.TryCancel();
  const grpc::Status ended = stream->Finish();
  MSITD_RETURN_IF_ERROR(taken);
  MSITD_RETURN_IF_ERROR(StatusOf(connection_->OutcomeOf(ended)));
  if (comparison.state() == v1::Comparison::DONE) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kInternal, "the comparison failed: {}",
                    comparison.error());
}

}  // namespace msitd::msit_command
