// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/grpc_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/config/listen_address.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/server/file_budget.h"
#include "daemon/server/handover.h"
#include "daemon/server/open_connections.h"
#include "daemon/server/passed_sockets.h"
#include "daemon/server/socket_file.h"
#include "daemon/service/call/caller_stamp.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/server_builder.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

// Size of a chunk, plus room for the other fields of its message.
constexpr int kMessageBytesMax =
    static_cast<int>(ingest::BufferPool::kBufferBytesMax) + (64 << 10);

// A dead peer is detected within the sum of both, so that its rank can
// reconnect.
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Clients may ping this often without being disconnected for flooding.
constexpr int kClientPingIntervalMs = 10'000;

// Clients delay calls beyond this limit.
constexpr int kCallsPerConnectionMax = 32;

// Number of bytes that a stream may receive ahead of a requested message. A
// requested message is received as a whole. Constant instead of estimated from
// the network, because the available memory does not grow with the network.
constexpr int kLookaheadBytes = 64 << 10;

// Minimum of the quota. Messages in progress may use as much memory as the
// buffers for their chunks, but never less than this, so that a few always fit.
constexpr int64_t kQuotaBytesMin = int64_t{64} << 20;

// Reflection blocks one thread for each of its streams.
constexpr int kSyncThreadsMax = 8;

// How often gRPC checks the copies of the TLS files for changes.
constexpr unsigned kTlsCopiesIntervalS = 2;

constexpr int kHandshakeTimeoutMs = OpenConnections::kHandshakeTimeout.count();

// An idle connection is closed; its client reconnects for its next call.
constexpr int kIdleTimeoutMs = 600'000;

std::vector<std::string> NamesIn(const grpc::AuthContext& connection) {
  std::vector<std::string> out;
  for (const char* property :
       {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
    for (const grpc::string_ref& name :
         connection.FindPropertyValues(property)) {
      // A certificate without a common name has an empty one.
      if (name.empty()) continue;
      out.emplace_back(name.data(), name.size());
    }
  }
  return out;
}

// Credentials for plain TCP, which is only for clients on this machine.
std::shared_ptr<grpc::ServerCredentials> LoopbackCredentials(
    const access::LivePolicy& policy) {
  auto out = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  out->SetAuthMetadataProcessor(std::make_shared<service::CallerStamp>(
      [&policy](const grpc::AuthContext&) {
        return policy.Get()->OfLoopback();
      }));
  return out;
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(
    const TlsFiles& files, const access::LivePolicy& policy) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(
      std::make_shared<tls::FileWatcherCertificateProvider>(
          files.own_copy(), files.own_copy(), files.client_ca_copy(),
          kTlsCopiesIntervalS));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca_copy().empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  auto out = tls::TlsServerCredentials(options);
  out->SetAuthMetadataProcessor(std::make_shared<service::CallerStamp>(
      [&policy](const grpc::AuthContext& connection) {
        return policy.Get()->OfCertificate(NamesIn(connection));
      }));
  return out;
}

void SetOptions(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Pages and groups are bounded in number, but their names determine their
  // size.
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kCallsPerConnectionMax);
  // Otherwise gRPC would decompress a few KiB to any size.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             kLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kClientPingIntervalMs);
}

// gRPC reads a whole message before it notices that the message is too long,
// and may do so for all calls at once. Beyond the quota it cancels calls, and
// producers reopen their streams.
void SetQuota(const config::DaemonConfig& config,
              grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("server");
  quota.Resize(static_cast<size_t>(
      std::max(config.ingest_buffer_bytes, kQuotaBytesMin)));
  quota.SetMaxThreads(kSyncThreadsMax);
  builder.SetResourceQuota(quota);
}

// gRPC validates credentials only when it opens a port itself, so this opens
// one.
absl::Status CheckCredentials(
    const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  const auto queue = builder.AddCompletionQueue();
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr) server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
  if (port != 0) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "tls_cert and tls_key do not fit, or are no PEM");
}

// Adds the services, with health checks and reflection, and the limits of
// calls.
void SetUpBuilder(const config::DaemonConfig& config,
                  std::span<const NamedService> services,
                  grpc::ServerBuilder& builder) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  SetOptions(builder);
  SetQuota(config, builder);
  for (const NamedService& named : services) {
    builder.RegisterService(named.service);
  }
}

absl::StatusOr<std::vector<config::ListenAddress>> AddressesOf(
    const config::DaemonConfig& config) {
  std::vector<config::ListenAddress> out;
  for (const std::string& text : config.listen) {
    MSITD_ASSIGN_OR_RETURN(out.emplace_back(),
                           config::ParseListenAddress(text));
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const config::DaemonConfig& config, const access::LivePolicy& policy,
    std::span<const NamedService> services) {
  auto out = std::unique_ptr<GrpcServer>(new GrpcServer());
  const bool has_tls = !config.tls_cert.empty();
  if (has_tls) {
    MSITD_ASSIGN_OR_RETURN(out->tls_files_,
                           TlsFiles::Open({config.tls_cert, config.tls_key,
                                           config.tls_client_ca}));
  }
  MSITD_ASSIGN_OR_RETURN(auto addresses, AddressesOf(config));
  const std::string path = config.SocketPath();
  UniqueFd passed = TakePassedSocket(path, SOCK_STREAM);
  if (!passed.valid()) {
    MSITD_RETURN_IF_ERROR(PrepareSocketFile(path, SOCK_STREAM));
    out->socket_path_ = path;
  }

  // Keeps the library initialized for the lifetime of the process. Shutting it
  // down with the last server or channel can wait 10 s for one of its own
  // pollers.
  [[maybe_unused]] static const bool kept = (grpc_init(), true);

  const auto tcp_credentials = has_tls
                                   ? TlsCredentials(*out->tls_files_, policy)
                                   : LoopbackCredentials(policy);
  if (has_tls) MSITD_RETURN_IF_ERROR(CheckCredentials(tcp_credentials));
  grpc::ServerBuilder builder;
  SetUpBuilder(config, services, builder);
  const FileBudget budget =
      FileBudget::Of(FileLimit(), static_cast<size_t>(config.max_streams));
  using Protocol = ConnectionAcceptor::Protocol;
  auto slots = std::make_unique<CallerSlots>(policy, builder,
                                             budget.unix_connections_max);
  out->callers_ = slots.get();
  const size_t local = out->acceptor_.AddGroup(
      std::move(slots), Protocol::kHttp2, budget.unix_connections_max);
  if (passed.valid()) {
    out->acceptor_.Adopt(local, std::move(passed));
  } else {
    MSITD_RETURN_IF_ERROR(out->acceptor_.ListenUnix(local, path));
  }
  out->endpoints_.push_back("unix:" + path);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, "listen on " + path);
  }
  out->callers_->SetSocketGroup(info.st_gid);
  const size_t tcp = out->acceptor_.AddGroup(
      std::make_unique<DirectHandover>(AddHandler(builder, tcp_credentials)),
      has_tls ? Protocol::kTls : Protocol::kHttp2, budget.tcp_connections_max);
  for (config::ListenAddress& address : addresses) {
    MSITD_ASSIGN_OR_RETURN(address.port,
                           out->acceptor_.ListenTcp(tcp, address));
    out->endpoints_.push_back(address.ToString());
  }
  out->server_ = builder.BuildAndStart();
  if (out->server_ == nullptr) {
    return absl::InternalError("gRPC does not start");
  }
  for (const NamedService& named : services) {
    out->server_->GetHealthCheckService()->SetServingStatus(named.name, true);
  }
  if (config.idle_exit_s > 0) out->acceptor_.CountConnections();
  out->acceptor_.Start();
  return out;
}

GrpcServer::~GrpcServer() { Shutdown(std::chrono::system_clock::now()); }

void GrpcServer::RefreshTls() {
  if (tls_files_ != nullptr) {
    tls_files_->Refresh(std::chrono::steady_clock::now());
  }
}

std::string GrpcServer::ReloadTls() {
  return tls_files_ == nullptr
             ? ""
             : tls_files_->Reload(std::chrono::steady_clock::now());
}

void GrpcServer::SetNotServing() {
  if (server_ != nullptr) {
    server_->GetHealthCheckService()->SetServingStatus(false);
  }
}

void GrpcServer::Shutdown(std::chrono::system_clock::time_point deadline) {
  acceptor_.Stop();
  if (server_ == nullptr) return;
  server_->Shutdown(deadline);
  server_->Wait();
  server_.reset();
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
}

}  // namespace msitd::server
