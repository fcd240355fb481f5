// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/grpc_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "daemon/config/listen_address.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/server/socket_file.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

// A chunk, and room for the other fields of its message.
constexpr int kMessageBytesMax =
    static_cast<int>(ingest::BufferPool::kBufferBytesMax) + (64 << 10);

constexpr mode_t kSocketMode = 0660;

// A dead peer is noticed within the sum, so that its rank can come back.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// What clients may do without being taken for a flood.
constexpr int kClientPingIntervalMs = 10'000;

// Clients hold the calls beyond it back.
constexpr int kCallsPerConnectionMax = 32;

// Of a stream, ahead of what is asked for; a message that is asked for comes
// whole. Not estimated from the network, since memory is not.
constexpr int kLookaheadBytes = 64 << 10;

// Messages under way may take as much as the chunks that came of them, and a
// few always fit.
constexpr int64_t kQuotaBytesMin = int64_t{64} << 20;

// Reflection blocks one for each of its streams.
constexpr int kSyncThreadsMax = 8;

constexpr int kHandshakeTimeoutMs = 20'000;

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.is_open() || text.str().empty()) {
    return ErrnoStatus(errno == 0 ? EIO : errno, "read " + path);
  }
  return std::move(text).str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TcpCredentials(
    const config::DaemonConfig& config) {
  if (config.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options;
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  MSITD_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem(config.tls_cert));
  MSITD_ASSIGN_OR_RETURN(pair.private_key, ReadPem(config.tls_key));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!config.tls_client_ca.empty()) {
    MSITD_ASSIGN_OR_RETURN(options.pem_root_certs,
                           ReadPem(config.tls_client_ca));
    options.client_certificate_request =
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(options);
}

void SetOptions(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Pages and groups are bounded in number; names decide their bytes.
  builder.SetMaxSendMessageSize(-1);
  // Otherwise a second daemon could bind the same port and take half of the
  // connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kCallsPerConnectionMax);
  // gRPC would inflate a few KiB to any size.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             kLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kClientPingIntervalMs);
}

// gRPC takes a message of any length off the wire before it looks whether it
// is too long, and as many as there are calls. Beyond the quota it cancels
// calls, and producers open their streams again.
void SetQuota(const config::DaemonConfig& config,
              grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("server");
  quota.Resize(static_cast<size_t>(
      std::max(config.ingest_buffer_bytes, kQuotaBytesMin)));
  quota.SetMaxThreads(kSyncThreadsMax);
  builder.SetResourceQuota(quota);
}

struct Listener {
  config::ListenAddress address;
  int port = 0;  // As bound; 0 if that failed.
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const config::DaemonConfig& config,
    std::span<const NamedService> services) {
  auto out = std::unique_ptr<GrpcServer>(new GrpcServer());
  MSITD_ASSIGN_OR_RETURN(const auto tcp_credentials, TcpCredentials(config));
  std::vector<Listener> listeners(config.listen.size());
  for (size_t i = 0; i < listeners.size(); ++i) {
    MSITD_ASSIGN_OR_RETURN(listeners[i].address,
                           config::ParseListenAddress(config.listen[i]));
  }
  const std::string path = config.SocketPath();
  MSITD_RETURN_IF_ERROR(PrepareSocketFile(path, SOCK_STREAM));
  out->socket_path_ = path;

  // The library stays up for as long as the process: taking it down with the
  // last server or channel can wait 10 s for a poller of its own.
  [[maybe_unused]] static const bool kept = (grpc_init(), true);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetOptions(builder);
  SetQuota(config, builder);
  for (const NamedService& named : services) {
    builder.RegisterService(named.service);
  }
  int unix_port = 0;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials(),
                           &unix_port);
  for (Listener& listener : listeners) {
    builder.AddListeningPort(listener.address.ToString(), tcp_credentials,
                             &listener.port);
  }
  out->server_ = builder.BuildAndStart();

  const auto failed = [&config](const std::string& endpoint) {
    return MakeStatus(
        absl::StatusCode::kUnavailable,
        "cannot listen on {}: the address is taken or not of this machine{}",
        endpoint,
        config.tls_cert.empty() ? ""
                                : ", or the certificate and key do not fit");
  };
  if (unix_port == 0) return failed(path);
  out->endpoints_.push_back("unix:" + path);
  for (Listener& listener : listeners) {
    if (listener.port == 0) return failed(listener.address.ToString());
    listener.address.port = static_cast<uint16_t>(listener.port);
    out->endpoints_.push_back(listener.address.ToString());
  }
  if (out->server_ == nullptr) return failed(path);
  for (const NamedService& named : services) {
    out->server_->GetHealthCheckService()->SetServingStatus(named.name, true);
  }
  if (::fchmodat(AT_FDCWD, path.c_str(), kSocketMode, AT_SYMLINK_NOFOLLOW) !=
      0) {
    return ErrnoStatus(errno, "chmod " + path);
  }
  return out;
}

GrpcServer::~GrpcServer() { Shutdown(std::chrono::system_clock::now()); }

void GrpcServer::SetNotServing() {
  if (server_ != nullptr) {
    server_->GetHealthCheckService()->SetServingStatus(false);
  }
}

void GrpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  if (server_ == nullptr) return;
  server_->Shutdown(deadline);
  server_->Wait();
  server_.reset();
  // gRPC removes it as well, but not on every path.
  ::unlink(socket_path_.c_str());
}

}  // namespace msitd::server
