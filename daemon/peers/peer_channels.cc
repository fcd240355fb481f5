// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/peer_channels.h"

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "protos/chunk/chunk.h"
#include "protos/pem/pem.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

// Large enough for the largest batch of entries and for every other message.
constexpr int kMessageBytesMax = 20 << 20;

// Pause between attempts to connect.
constexpr std::chrono::milliseconds kPauseMin{50};
constexpr std::chrono::milliseconds kPauseMax{1000};

// A connection without calls is closed after this time.
constexpr std::chrono::milliseconds kIdleTimeout{30'000};

absl::Status ReadPem(const std::string& path, std::string& out) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> text = pem::ReadFile(path);
  if (!text.ok()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}",
                      Message(text.status()));
  }
  out = *std::move(text);
  return absl::OkStatus();
}

bool UsesTls(const std::string& endpoint, const PeerOptions& options) {
  return !endpoint.starts_with("unix:") && !options.ca_file.empty();
}

absl::StatusOr<grpc::SslCredentialsOptions> ReadFiles(
    const PeerOptions& options) {
  grpc::SslCredentialsOptions out;
  MSITD_RETURN_IF_ERROR(ReadPem(options.ca_file, out.pem_root_certs));
  MSITD_RETURN_IF_ERROR(ReadPem(options.certificate_file, out.pem_cert_chain));
  MSITD_RETURN_IF_ERROR(ReadPem(options.key_file, out.pem_private_key));
  return out;
}

ContentHash HashOf(const grpc::SslCredentialsOptions& files) {
  const std::string all =
      fmt::format("{}{}{}{}{}", files.pem_root_certs, '\0',
                  files.pem_cert_chain, '\0', files.pem_private_key);
  return chunk::HashBytes(std::as_bytes(std::span(all)));
}

// Connects without TLS if `files` is empty.
std::shared_ptr<grpc::Channel> Connect(
    const std::string& endpoint,
    const std::optional<grpc::SslCredentialsOptions>& files) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Daemons are reached directly, without an HTTP proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kPauseMin.count()));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(kPauseMax.count()));
  arguments.SetInt(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS,
                   static_cast<int>(kIdleTimeout.count()));
  // Do not share a failed connection with other channels.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(endpoint,
                                   files.has_value()
                                       ? grpc::SslCredentials(*files)
                                       : grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

absl::StatusOr<PeerChannels::Lent> PeerChannels::Lend(
    const std::string& endpoint) {
  std::optional<grpc::SslCredentialsOptions> files;
  ContentHash hash;
  if (UsesTls(endpoint, options_)) {
    auto read = ReadFiles(options_);
    if (!read.ok()) {
      return Annotate(read.status(), fmt::format("peer {}", endpoint));
    }
    hash = HashOf(*read);
    files = *std::move(read);
  }
  const auto is_outdated = [&hash](const Kept& kept) {
    return kept.files != hash || kept.channel->has_failed() ||
           kept.channel->channel->GetState(/*try_to_connect=*/false) ==
               GRPC_CHANNEL_TRANSIENT_FAILURE;
  };
  // Destroyed after the lock is released, because the last reference closes its
  // connection.
  std::vector<Kept> dropped;
  const MutexLock lock(mu_);
  if (kept_.size() == kEndpointsMax && !kept_.contains(endpoint)) kept_.clear();
  std::vector<Kept>& all = kept_[endpoint];
  const auto outdated = std::stable_partition(
      all.begin(), all.end(),
      [&](const Kept& kept) { return !is_outdated(kept); });
  std::move(outdated, all.end(), std::back_inserter(dropped));
  all.erase(outdated, all.end());
  for (const Kept& kept : all) {
    // The previous user has released the channel, and only this function can
    // lend it again.
    if (kept.channel.use_count() == 1) return Lent{kept.channel, false};
  }
  Lent out{std::make_shared<PeerChannel>(Connect(endpoint, files)), true};
  if (all.size() < kOfEndpointMax) all.push_back({out.channel, hash});
  return out;
}

}  // namespace msitd::peers
