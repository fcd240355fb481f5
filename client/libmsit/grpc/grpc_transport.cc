// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/grpc_transport.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <new>
#include <utility>

#include "client/libmsit/grpc/tls_settings.h"
#include "client/libmsit/grpc/wire.h"

namespace msitd::libmsit {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& endpoint,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const GrpcTransport::Keepalive& keepalive) {
  // Keeps gRPC initialized as long as the process. Shutting it down with the
  // last channel can take 10 s, and the next client would have to wait for
  // that.
  [[maybe_unused]] static const bool kept = (grpc_init(), true);
  grpc::ChannelArguments arguments;
  // Each client has its own connection, and its sender decides when to
  // reconnect.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Daemons are reached directly, without an HTTP proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(keepalive.time.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(keepalive.timeout.count()));
  // A stream may be idle for an unlimited time.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

}  // namespace

GrpcTransport::GrpcTransport(std::string endpoint)
    : GrpcTransport(std::move(endpoint), Keepalive()) {}

GrpcTransport::GrpcTransport(std::string endpoint, Keepalive keepalive)
    : endpoint_(std::move(endpoint)),
      keepalive_(keepalive),
      remains_(std::make_unique<Remains>()) {
  // Reserved so that Stop needs no memory.
  remains_->streams.reserve(kStoppedMax + 1);
}

GrpcTransport::GrpcTransport(std::string endpoint, TlsSettings tls)
    : endpoint_(std::move(endpoint)),
      tls_(std::move(tls)),
      remains_(std::make_unique<Remains>()) {
  remains_->streams.reserve(kStoppedMax + 1);
}

void GrpcTransport::Open(const StreamIdentity& identity,
                         TransportListener* listener) {
  FreeStreams();
  if (remains_->streams.size() >= kStoppedMax) {
    listener->OnEnd(StreamEnd::kLost,
                    "UNAVAILABLE: earlier connections have not ended");
    return;
  }
  if (remains_->channel == nullptr) {
    std::string error;
    // A Unix socket is on this machine and needs no encryption.
    const TlsSettings tls =
        endpoint_.starts_with("unix:")
            ? TlsSettings()
            : (tls_ ? *tls_ : TlsSettings::FromEnvironment());
    const auto credentials = MakeCredentials(tls, &error);
    if (credentials == nullptr) {
      listener->OnEnd(StreamEnd::kRefused, error);
      return;
    }
    remains_->channel = MakeChannel(endpoint_, credentials, keepalive_);
  }
  stream_ = std::make_unique<WriteStream>(listener, remains_->lent);
  stream_->Start(remains_->channel, identity);
}

void GrpcTransport::Send(std::span<const std::byte> chunk) {
  stream_->SendChunk(chunk);
}

void GrpcTransport::ReportCoverage(const StreamCoverage& coverage,
                                   int64_t token_end) {
  stream_->SendMessage(EncodeCoverage(coverage, token_end));
}

void GrpcTransport::Finish() { stream_->Finish(); }

bool GrpcTransport::Stop() {
  if (stream_ != nullptr) {
    stream_->Stop();
    remains_->streams.push_back(std::move(stream_));
  }
  FreeStreams();
  return remains_->lent->empty();
}

void GrpcTransport::FreeStreams() {
  std::erase_if(remains_->streams,
                [](const auto& stream) { return stream->IsDone(); });
}

void GrpcTransport::KeepMemory(std::span<std::byte> mapping) {
  try {
    remains_->mappings.push_back(mapping);
  } catch (const std::bad_alloc&) {
    // Without memory to record it, the mapping stays mapped.
  }
}

void GrpcTransport::Destroy() {
  Stop();
  FreeInTime(std::move(remains_));
  delete this;
}

}  // namespace msitd::libmsit
