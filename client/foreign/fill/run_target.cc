// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/run_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/ask/query/attachment_bytes.h"
#include "client/ask/query/connection.h"
#include "client/libmsit/grpc/grpc_transport.h"
#include "client/libmsit/shm/local_endpoint.h"
#include "client/libmsit/shm/shm_transport.h"
#include "protos/base/order_label.h"
#include "protos/base/source_label.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

constexpr int kNotFoundExit =
    ask::kExitDaemonBase + static_cast<int>(grpc::StatusCode::NOT_FOUND);
constexpr int kExistsExit =
    ask::kExitDaemonBase + static_cast<int>(grpc::StatusCode::ALREADY_EXISTS);

// The longest time for one call if the daemon responds at all.
constexpr std::chrono::seconds kCallTimeout{60};
constexpr std::chrono::seconds kEndTimeout{5};

// Converts an outcome to a status, because the job does not depend on outcomes.
absl::Status StatusOf(const ask::Outcome& outcome) {
  if (outcome.ok()) return absl::OkStatus();
  if (outcome.exit_code == ask::kExitInterrupted) {
    return absl::CancelledError(outcome.error);
  }
  const int code = outcome.exit_code - ask::kExitDaemonBase;
  const bool is_of_daemon = code > 0 && code <= 16;
  return WithReason(
      absl::Status(is_of_daemon ? static_cast<absl::StatusCode>(code)
                                : absl::StatusCode::kUnknown,
                   outcome.error),
      outcome.reason);
}

// A call of an import with a deadline. After the user has cancelled the import,
// the data that has arrived is still entered in the ledger, if the daemon
// accepts this within a short time.
class ImportCall {
 public:
  ImportCall(ask::Interrupts& interrupts,
             std::chrono::system_clock::time_point deadline)
      : is_ended_(interrupts.interrupted()),
        hold_(interrupts, is_ended_ ? nullptr : &context_) {
    context_.set_deadline(
        is_ended_ ? std::chrono::system_clock::now() + kEndTimeout : deadline);
  }

  grpc::ClientContext& context() { return context_; }

 private:
  const bool is_ended_;
  grpc::ClientContext context_;
  const ask::Interrupts::Hold hold_;
};

// Reads a whole attachment. `text` stays empty if there is none.
ask::Outcome ReadWhole(ask::Connection& connection, const std::string& run,
                       const std::string& name, std::string& text) {
  int64_t size_bytes = 0;
  const ask::Outcome read = ask::ReadAttachmentBytes(
      connection, run, name,
      [&text](std::string_view piece) {
        text += piece;
        return absl::OkStatus();
      },
      size_bytes);
  if (read.exit_code == kNotFoundExit) return {};
  return read;
}

}  // namespace

RunTarget::RunTarget(ask::Connection& connection, std::string run,
                     std::chrono::microseconds patience,
                     ProgressSink on_progress)
    : connection_(connection),
      name_(std::move(run)),
      patience_(patience),
      on_progress_(std::move(on_progress)) {}

ask::Outcome RunTarget::Prepare(const Content& content) {
  using Stub = v1::RunService::Stub;
  const int32_t world_size = content.world_size;
  v1::CreateRunRequest request;
  request.mutable_run()->set_name(name_);
  request.mutable_run()->set_world_size(world_size);
  auto& labels = *request.mutable_run()->mutable_labels();
  labels[kSourceLabel] = content.source;
  if (!content.has_known_order) {
    labels[kOrderLabel] = std::string(kUnknownOrder);
  } else if (!HasKnownOrder(labels)) {
    labels[kOrderLabel] = std::string(kRecordedOrder);
  }
  const ask::Outcome created = connection_.Ask(&Stub::CreateRun, request, run_);
  if (created.exit_code != kExistsExit) return created;
  MSITCTL_RETURN_IF_FAILED(connection_.AskByName(&Stub::GetRun, name_, run_));
  if (run_.world_size() == 0) run_.set_world_size(world_size);
  const auto source = run_.labels().find(kSourceLabel);
  // LoadLedger rejects these.
  const bool is_of_others = source != run_.labels().end()
                                ? source->second != content.source
                                : !IsEmpty();
  if (!content.has_known_order && HasKnownOrder(run_.labels()) &&
      !is_of_others) {
    return ask::UsageError(fmt::format(
        "run {} exists without the label {}={}, and the files do not record in "
        "which order their tensors were computed: import into a new run, or "
        "create the run with `msitctl run create NAME --label {}={}`",
        name_, kOrderLabel, kUnknownOrder, kOrderLabel, kUnknownOrder));
  }
  const bool fits = content.is_world_size_said
                        ? run_.world_size() == world_size
                        : run_.world_size() >= world_size;
  if (fits) return {};
  return ask::UsageError(fmt::format("run {} has {} ranks, not {}", name_,
                                     run_.world_size(), world_size));
}

bool RunTarget::IsEmpty() const {
  const v1::RunCounters& held = run_.counters();
  return held.tensor_count() + held.value_count() + held.statistics_count() +
             held.document_count() ==
         0;
}

ask::Outcome RunTarget::CheckOwner(const std::string& source) {
  const auto label = run_.labels().find(kSourceLabel);
  const bool has_label = label != run_.labels().end();
  if (has_label && label->second != source) {
    return ask::UsageError(fmt::format(
        "run {} has files of format {}, not {}: import into another run", name_,
        label->second, source));
  }
  if (has_label || has_ledger_ || IsEmpty()) return {};
  return ask::UsageError(fmt::format(
      "run {} has tensors that were not imported: import into another run",
      name_));
}

ask::Outcome RunTarget::LoadLedger(const std::string& source,
                                   ImportLedger& ledger) {
  for (size_t i = 0; i < ImportLedger::kPartsMax; ++i) {
    std::string text;
    MSITCTL_RETURN_IF_FAILED(
        ReadWhole(connection_, name_, ImportLedger::PartName(i), text));
    if (text.empty()) break;
    ledger.Load(text);
    has_ledger_ = true;
  }
  if (!ledger.loaded_source().empty() && ledger.loaded_source() != source) {
    return ask::UsageError(fmt::format(
        "run {} has files of format {}, not {}: import into another run", name_,
        ledger.loaded_source(), source));
  }
  return CheckOwner(source);
}

ask::Outcome RunTarget::Seal() {
  MSITCTL_RETURN_IF_FAILED(connection_.Connect());
  v1::SealRunRequest request;
  request.set_run(name_);
  ImportCall call(connection_.interrupts(), Deadline());
  return connection_.OutcomeOf(connection_.stub<v1::RunService::Stub>().SealRun(
      &call.context(), request, &run_));
}

absl::StatusOr<RunTarget::Standing> RunTarget::ReadStanding() {
  const auto deadline = std::chrono::system_clock::now() + kEndTimeout;
  const auto ask = [&](auto& stub, auto method, auto request, auto& response) {
    request.set_run(name_);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    return StatusOf(
        connection_.OutcomeOf((stub.*method)(&context, request, &response)));
  };
  MSITD_RETURN_IF_ERROR(StatusOf(connection_.Connect()));
  using Runs = v1::RunService::Stub;
  using Captures = v1::CaptureService::Stub;
  v1::CapturePolicy policy;
  v1::Run run;
  MSITD_RETURN_IF_ERROR(ask(connection_.stub<Captures>(),
                            &Captures::GetCapturePolicy,
                            v1::GetCapturePolicyRequest(), policy));
  MSITD_RETURN_IF_ERROR(
      ask(connection_.stub<Runs>(), &Runs::GetRun, v1::GetRunRequest(), run));
  return Standing{.policy_revision = policy.revision(),
                  .conflict_count = run.counters().conflict_count()};
}

std::chrono::system_clock::time_point RunTarget::Deadline() const {
  return std::chrono::system_clock::now() +
         std::min<std::chrono::microseconds>(patience_, kCallTimeout);
}

std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer>
RunTarget::MakeTransport() const {
  const ask::ConnectionOptions& connection = connection_.connection_options();
  std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer> transport;
  const auto local = libmsit::ParseLocalEndpoint(connection.endpoint);
  const bool shares_memory =
      local && !local->ingest_socket.empty() &&
      access(local->ingest_socket.c_str(), R_OK | W_OK) == 0;
  if (shares_memory) {
    transport.reset(new libmsit::ShmTransport(local->ingest_socket));
  } else {
    transport.reset(new libmsit::GrpcTransport(
        connection.target, libmsit::TlsSettings{
                               .is_on = connection.tls,
                               .ca_file = connection.ca_file,
                               .cert_file = connection.cert_file,
                               .key_file = connection.key_file,
                           }));
  }
  return transport;
}

absl::StatusOr<std::unique_ptr<libmsit::Client>> RunTarget::OpenRank(
    int32_t rank, libmsit::InterruptCheck interrupt) {
  if (run_.state() == v1::Run::SEALED) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "run {} is sealed and does not contain all of these "
                      "files: import into another run",
                      name_);
  }
  libmsit::ClientOptions options;
  options.run = name_;
  options.rank = rank;
  options.world_size = run_.world_size();
  options.max_block = patience_;
  options.buffer_bytes = buffer_bytes_;
  options.open_timeout = patience_;
  options.user_agent = "msitctl run import";
  options.interrupt = interrupt;
  options.if_exists = IfExists::kAppend;
  std::unique_ptr<libmsit::Client> opened;
  const libmsit::Status status =
      libmsit::Client::Open(std::move(options), MakeTransport(), &opened);
  switch (status.code) {
    case MSIT_OK:
      return opened;
    case MSIT_ERROR_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(status.message);
    case MSIT_ERROR_INTERRUPTED:
      return absl::CancelledError(status.message);
    case MSIT_ERROR_REFUSED:
      return absl::FailedPreconditionError(status.message);
    default:
      return absl::UnavailableError(status.message);
  }
}

absl::Status RunTarget::Attach(const std::string& name,
                               const std::string& media_type,
                               std::string_view bytes) {
  v1::WriteAttachmentRequest::Open open;
  open.set_run(name_);
  open.set_name(name);
  open.set_media_type(media_type);
  open.set_replace(true);
  ImportCall call(connection_.interrupts(), Deadline());
  v1::Attachment written;
  return StatusOf(ask::WriteAttachmentBytes(
      connection_, call.context(), std::move(open), bytes, nullptr, written));
}

bool RunTarget::is_interrupted() {
  return connection_.interrupts().interrupted();
}

void RunTarget::OnProgress(const ImportCounts& counts, int64_t problem_count) {
  if (on_progress_) on_progress_(counts, problem_count);
}

}  // namespace msitd::fill
