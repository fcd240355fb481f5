// SPDX-License-Identifier: Apache-2.0
#include "client/grpc/grpc_transport.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "client/grpc/tls_settings.h"
#include "client/grpc/wire.h"

namespace msitd::client {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& endpoint,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // Each client has a connection of its own, and the sender decides when to
  // try again.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A proxy for the web is not the way to a daemon of the node or the cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

}  // namespace

GrpcTransport::GrpcTransport(std::string endpoint)
    : endpoint_(std::move(endpoint)) {}

void GrpcTransport::Open(const StreamIdentity& identity,
                         TransportListener* listener) {
  if (channel_ == nullptr) {
    std::string error;
    // A Unix socket is of this machine, whatever the way to others is.
    const TlsSettings tls = endpoint_.starts_with("unix:")
                                ? TlsSettings()
                                : TlsSettings::FromEnvironment();
    const auto credentials = MakeCredentials(tls, &error);
    if (credentials == nullptr) {
      listener->OnEnd(StreamEnd::kRefused, error);
      return;
    }
    channel_ = MakeChannel(endpoint_, credentials);
  }
  stream_ = std::make_unique<WriteStream>(listener);
  stream_->Start(channel_, identity);
}

void GrpcTransport::Send(std::span<const std::byte> chunk) {
  stream_->SendChunk(chunk);
}

void GrpcTransport::ReportCoverage(const StreamCoverage& coverage) {
  stream_->SendMessage(EncodeCoverage(coverage));
}

void GrpcTransport::Finish() { stream_->Finish(); }

bool GrpcTransport::Stop() {
  if (stream_ == nullptr) return true;
  const bool is_free = stream_->Stop();
  stream_.reset();
  return is_free;
}

void GrpcTransport::Destroy() {
  Stop();
  delete this;
}

}  // namespace msitd::client
