// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/session.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "client/ctl/text.h"

namespace msitd::ctl {
namespace {

// A page of 1000 rows with the longest names.
constexpr int kMessageBytesMax = 64 << 20;

// Reads a PEM file into `text`; does nothing if `path` is empty.
Outcome ReadPem(const std::string& path, std::string& text) {
  if (path.empty()) return {};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (!text.empty()) return {};
  return LocalError(fmt::format("read {}: {}", path,
                                errno == 0
                                    ? "the file is empty"
                                    : std::generic_category().message(errno)));
}

}  // namespace

Session::Session(SessionOptions options, Interrupts& interrupts, Output& out)
    : options_(std::move(options)), interrupts_(interrupts), out_(out) {}

PrintOptions Session::print_options(const std::string& columns) const {
  PrintOptions print;
  print.format = options_.format;
  print.table.width = options_.terminal.stdout_width;
  print.table.color = options_.color;
  print.to_terminal = options_.terminal.stdout_is_terminal;
  print.guards_formulas = options_.guards_formulas;
  print.columns = columns;
  return print;
}

Session::Clock::time_point Session::UnaryDeadline() const {
  return options_.timeout.has_value() ? start_ + *options_.timeout
                                      : Clock::now() + kUnaryTimeout;
}

Session::Clock::time_point Session::StreamDeadline() const {
  return options_.timeout.has_value() ? start_ + *options_.timeout
                                      : Clock::now() + kStreamTimeout;
}

Outcome Session::OpenChannel() {
  auto credentials = grpc::InsecureChannelCredentials();
  if (options_.tls) {
    grpc::SslCredentialsOptions ssl;
    MSITCTL_RETURN_IF_FAILED(ReadPem(options_.ca_file, ssl.pem_root_certs));
    MSITCTL_RETURN_IF_FAILED(ReadPem(options_.cert_file, ssl.pem_cert_chain));
    MSITCTL_RETURN_IF_FAILED(ReadPem(options_.key_file, ssl.pem_private_key));
    credentials = grpc::SslCredentials(ssl);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // A daemon is reached directly; a proxy for the web would only be in the way.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  channel_ = grpc::CreateCustomChannel(options_.target, credentials, arguments);
  runs_ = v1::RunService::NewStub(channel_);
  tensors_ = v1::TensorService::NewStub(channel_);
  comparisons_ = v1::ComparisonService::NewStub(channel_);
  captures_ = v1::CaptureService::NewStub(channel_);
  node_ = v1::NodeService::NewStub(channel_);
  return {};
}

Outcome Session::Connect() {
  if (channel_ != nullptr) return {};
  MSITCTL_RETURN_IF_FAILED(OpenChannel());
  const auto deadline =
      std::min(Clock::now() + options_.connect_timeout, StreamDeadline());
  auto state = channel_->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY &&
         state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!channel_->WaitForStateChange(state, deadline)) {
      return OutcomeOf(
          grpc::Status(grpc::StatusCode::UNAVAILABLE,
                       fmt::format("no connection within {}",
                                   HumanDuration(std::chrono::duration<double>(
                                                     options_.connect_timeout)
                                                     .count()))));
    }
    state = channel_->GetState(true);
  }
  // After a failure the first call tells why; gRPC does not say it here.
  was_ready_ = state == GRPC_CHANNEL_READY;
  return {};
}

Outcome Session::OutcomeOf(const grpc::Status& status) const {
  if (status.ok()) return {};
  if (interrupts_.interrupted()) return Interrupted();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !was_ready_) {
    return DaemonError(
        grpc::Status(status.error_code(),
                     fmt::format("cannot reach {}: {}", options_.endpoint,
                                 status.error_message())));
  }
  return DaemonError(status);
}

}  // namespace msitd::ctl
