// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/connection.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <utility>

#include "client/ask/query/endpoint.h"
#include "client/ask/query/tls_probe.h"
#include "client/ask/text/text.h"
#include "protos/base/daemon_id.h"
#include "protos/pem/pem.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// Fits a page of 1000 rows with the longest names.
constexpr int kMessageBytesMax = 64 << 20;

// Time to determine why there is no connection.
constexpr std::chrono::seconds kProbeTimeout(2);

// Reads a PEM file into `text`; does nothing if `path` is empty.
Outcome ReadPem(const std::string& path, std::string& text) {
  if (path.empty()) return {};
  absl::StatusOr<std::string> contents = pem::ReadFile(path);
  if (!contents.ok()) {
    return LocalError(std::string(Message(contents.status())));
  }
  text = *std::move(contents);
  return {};
}

// The error for a file whose content is wrong.
Outcome WrongFile(const std::string& path, const absl::Status& why) {
  return LocalError(fmt::format("read {}: {}", path, Message(why)));
}

// Reads the files of TLS, and checks them as gRPC will.
Outcome ReadTlsFiles(const ConnectionOptions& options,
                     grpc::SslCredentialsOptions& out) {
  MSITCTL_RETURN_IF_FAILED(ReadPem(options.ca_file, out.pem_root_certs));
  MSITCTL_RETURN_IF_FAILED(ReadPem(options.cert_file, out.pem_cert_chain));
  MSITCTL_RETURN_IF_FAILED(ReadPem(options.key_file, out.pem_private_key));
  for (const auto& [path, text] :
       {std::pair(&options.ca_file, &out.pem_root_certs),
        std::pair(&options.cert_file, &out.pem_cert_chain)}) {
    if (path->empty()) continue;
    const auto certificate = pem::ReadCertificate(*text);
    if (!certificate.ok()) return WrongFile(*path, certificate.status());
  }
  if (options.cert_file.empty()) return {};
  const absl::Status fits =
      pem::CheckKey(out.pem_private_key, out.pem_cert_chain);
  if (fits.ok()) return {};
  return WrongFile(
      fmt::format("{} for {}", options.key_file, options.cert_file), fits);
}

// Describes gRPC's error about an unreachable daemon, with advice.
std::string WhyInWords(std::string_view by_grpc, std::string_view address) {
  constexpr std::pair<std::string_view, std::string_view> kAbsent[] = {
      {"No such file or directory", "there is no such socket"},
      {"Connection refused", "no daemon is running there"}};
  if (by_grpc.find("Permission denied") != std::string_view::npos) {
    return endpoint::NotAllowed(SocketFolder(address));
  }
  for (const auto& [system, words] : kAbsent) {
    if (by_grpc.find(system) == std::string_view::npos) continue;
    const std::string command = StartCommand(address);
    return fmt::format(
        "{}; {}; to use another one: --endpoint or MSITD_ENDPOINT", words,
        command.empty() ? std::string("start a daemon on that machine")
                        : fmt::format("to start a daemon: {}", command));
  }
  return std::string(by_grpc);
}

}  // namespace

Connection::Connection(ConnectionOptions options, Interrupts& interrupts)
    : options_(std::move(options)), interrupts_(interrupts) {}

Connection::Clock::time_point Connection::UnaryDeadline() const {
  const auto deadline = options_.timeout.has_value()
                            ? start_ + *options_.timeout
                            : Clock::now() + kUnaryTimeout;
  return options_.call_timeout.has_value()
             ? std::min(deadline, Clock::now() + *options_.call_timeout)
             : deadline;
}

Connection::Clock::time_point Connection::StreamDeadline() const {
  return options_.timeout.has_value() ? start_ + *options_.timeout
                                      : Clock::now() + kStreamTimeout;
}

Outcome Connection::OpenChannel() {
  auto credentials = grpc::InsecureChannelCredentials();
  if (options_.tls) {
    grpc::SslCredentialsOptions ssl;
    MSITCTL_RETURN_IF_FAILED(ReadTlsFiles(options_, ssl));
    credentials = grpc::SslCredentials(ssl);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Daemons are reached directly, without a web proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options_.tls_host.empty()) {
    arguments.SetSslTargetNameOverride(options_.tls_host);
  }
  channel_ = grpc::CreateCustomChannel(options_.target, credentials, arguments);
  stubs_ = {v1::RunService::NewStub(channel_),
            v1::AttachmentService::NewStub(channel_),
            v1::TensorService::NewStub(channel_),
            v1::ComparisonService::NewStub(channel_),
            v1::CaptureService::NewStub(channel_),
            v1::NodeService::NewStub(channel_),
            v1::RunReaderService::NewStub(channel_),
            v1::ArchiveService::NewStub(channel_)};
  return {};
}

Outcome Connection::EnsureDaemon() {
  const auto unavailable = [](std::string_view message) {
    return DaemonError(grpc::StatusCode::UNAVAILABLE, "", message);
  };
  if (!options_.problem.empty()) return unavailable(options_.problem);
  if (options_.personal_dir.empty()) return {};
  const auto deadline = std::min(StreamDeadline(), call_deadline_);
  endpoint::StartOptions how;
  how.start = options_.start;
  how.timeout = std::min(
      how.timeout,
      std::chrono::ceil<std::chrono::milliseconds>(std::max<Clock::duration>(
          deadline - Clock::now(), Clock::duration::zero())));
  how.is_interrupted = [this] { return interrupts_.interrupted(); };
  const Interrupts::Hold hold(interrupts_);
  const endpoint::Started started = endpoint::EnsurePersonalDaemon(
      options_.personal_dir, how, endpoint::Surroundings::OfProcess());
  if (started.is_ready) return {};
  if (interrupts_.interrupted()) return Interrupted();
  return unavailable(started.problem.empty() ? "your own daemon is starting"
                                             : started.problem);
}

Outcome Connection::WaitForChannel() {
  const auto deadline = std::min({Clock::now() + options_.connect_timeout,
                                  StreamDeadline(), call_deadline_});
  auto state = channel_->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY &&
         state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!channel_->WaitForStateChange(state, deadline)) {
      if (interrupts_.interrupted()) return Interrupted();
      const std::chrono::duration<double> waited = options_.connect_timeout;
      return Unreachable(
          fmt::format("no connection within {}", HumanDuration(waited.count())),
          call_deadline_);
    }
    state = channel_->GetState(true);
  }
  // After a failure, the first call gets the reason, which gRPC does not report
  // here.
  was_ready_ = state == GRPC_CHANNEL_READY;
  return {};
}

Outcome Connection::Connect() {
  if (fanout_ != nullptr) {
    return UsageError(
        "this requires a single daemon: use --endpoint instead of --endpoints");
  }
  return ConnectFor(std::nullopt);
}

Outcome Connection::ConnectFor(std::optional<Clock::time_point> deadline) {
  const uint64_t failed_before = failed_count_.load();
  MutexLock lock(mu_);
  if (failed_count_.load() != failed_before) return failure_;
  if (deadline.has_value()) call_deadline_ = *deadline;
  Outcome outcome = ConnectLocked();
  if (outcome.ok()) return outcome;
  failure_ = outcome;
  failed_count_.fetch_add(1);
  return outcome;
}

Outcome Connection::ConnectLocked() {
  // A personal daemon may have ended since the last call.
  MSITCTL_RETURN_IF_FAILED(EnsureDaemon());
  if (channel_ != nullptr) return was_ready_ ? Outcome() : WaitForChannel();
  MSITCTL_RETURN_IF_FAILED(OpenChannel());
  MSITCTL_RETURN_IF_FAILED(WaitForChannel());
  if (was_ready_ || options_.personal_dir.empty()) return {};
  // The personal daemon was ending when it was found.
  MSITCTL_RETURN_IF_FAILED(EnsureDaemon());
  MSITCTL_RETURN_IF_FAILED(OpenChannel());
  return WaitForChannel();
}

std::string Connection::daemon_id() const {
  MutexLock lock(mu_);
  return daemon_id_;
}

void Connection::NoteDaemon(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(kDaemonIdKey);
  if (found == metadata.end()) return;
  MutexLock lock(mu_);
  daemon_id_.assign(found->second.data(), found->second.size());
}

Outcome Connection::OutcomeOf(const grpc::Status& status) const {
  if (status.ok()) return {};
  if (interrupts_.interrupted()) return Interrupted();
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return DaemonError(status);
  }
  Clock::time_point call_deadline;
  {
    MutexLock lock(mu_);
    if (was_ready_) return DaemonError(status);
    call_deadline = call_deadline_;
  }
  return Unreachable(status.error_message(), call_deadline);
}

Outcome Connection::Unreachable(std::string_view by_grpc,
                                Clock::time_point call_deadline) const {
  std::string why;
  const auto time =
      std::min<Clock::duration>(kProbeTimeout, call_deadline - Clock::now());
  if (!options_.target.starts_with("unix:") && time.count() > 0) {
    why = WhyTlsFails(options_, std::chrono::steady_clock::now() + time);
  }
  if (why.empty()) why = WhyInWords(by_grpc, options_.endpoint);
  return DaemonError(
      grpc::Status(grpc::StatusCode::UNAVAILABLE,
                   fmt::format("cannot reach {}: {}", options_.endpoint, why)));
}

}  // namespace msitd::ask
