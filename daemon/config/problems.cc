// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/problems.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <string_view>
#include <utility>

#include "daemon/config/listen_address.h"
#include "protos/status/status.h"

namespace msitd::config {
namespace {

using Problems = std::vector<KeyProblem>;

constexpr size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;

void Add(Problems& out, std::string_view key, std::string text) {
  out.push_back({std::string(key), std::move(text)});
}

void CheckSocketPath(std::string_view key, const std::string& path,
                     Problems& out) {
  if (path.size() <= kSocketPathMax) return;
  Add(out, key,
      fmt::format("'{}' has {} bytes; a socket path has at most {}", path,
                  path.size(), kSocketPathMax));
}

void CheckListen(const DaemonConfig& config, Problems& out) {
  for (const std::string& text : config.listen) {
    const auto address = ParseListenAddress(text);
    if (!address.ok()) {
      Add(out, "listen", std::string(Message(address.status())));
    } else if (!address->is_loopback && config.tls_cert.empty()) {
      Add(out, "listen",
          fmt::format("'{}' is reachable from other machines, which "
                      "requires tls_cert and tls_key",
                      text));
    } else if (!address->is_plain_loopback && config.tls_cert.empty()) {
      Add(out, "listen",
          fmt::format("'{}': without tls_cert and tls_key, use "
                      "127.0.0.1, [::1] or localhost",
                      text));
    }
  }
}

void CheckPeer(const DaemonConfig& config, const std::string& peer,
               Problems& out) {
  constexpr std::string_view kUnix = "unix:";
  if (peer.starts_with(kUnix)) {
    const std::string_view path = std::string_view(peer).substr(kUnix.size());
    if (!path.starts_with('/') || path.size() > kSocketPathMax) {
      Add(out, "peers",
          fmt::format("'{}' has no absolute path of at most {} bytes", peer,
                      kSocketPathMax));
    }
    return;
  }
  const auto address = ParseListenAddress(peer);
  if (!address.ok()) {
    Add(out, "peers", std::string(Message(address.status())));
  } else if (address->port == 0) {
    Add(out, "peers", fmt::format("'{}' has no port", peer));
  } else if (!address->is_plain_loopback && config.peer_ca_file.empty()) {
    Add(out, "peers",
        fmt::format("'{}' is on another machine, which needs peer_ca_file",
                    peer));
  }
}

void CheckPeers(const DaemonConfig& config, Problems& out) {
  if (config.peer_certificate_file.empty() != config.peer_key_file.empty()) {
    Add(out,
        config.peer_key_file.empty() ? "peer_certificate_file"
                                     : "peer_key_file",
        "peer_certificate_file and peer_key_file must be set together");
  }
  if (!config.peer_certificate_file.empty() && config.peer_ca_file.empty()) {
    Add(out, "peer_certificate_file",
        "requires peer_ca_file, without which the peer is not verified");
  }
  for (const std::string& peer : config.peers) CheckPeer(config, peer, out);
}

void CheckMetrics(const DaemonConfig& config, Problems& out) {
  const std::string& text = config.metrics_listen;
  if (text.empty()) return;
  if (text.front() == '/') return CheckSocketPath("metrics_listen", text, out);
  const auto address = ParseListenAddress(text);
  if (!address.ok()) {
    Add(out, "metrics_listen", std::string(Message(address.status())));
  } else if (!address->is_loopback && config.metrics_token_file.empty() &&
             config.metrics_tls_client_ca.empty()) {
    Add(out, "metrics_listen",
        fmt::format("'{}' is reachable from other machines, which requires "
                    "metrics_token_file or metrics_tls_client_ca",
                    text));
  }
}

// Checks the keys of the TLS files of one listener, all of which begin with
// `prefix`.
void CheckTlsFiles(std::string_view prefix, const std::string& certificate,
                   const std::string& key, const std::string& client_ca,
                   Problems& out) {
  if (certificate.empty() != key.empty()) {
    Add(out, fmt::format("{}{}", prefix, certificate.empty() ? "key" : "cert"),
        fmt::format("{0}cert and {0}key must be set together", prefix));
  }
  if (!client_ca.empty() && certificate.empty()) {
    Add(out, fmt::format("{}client_ca", prefix),
        fmt::format("requires {0}cert and {0}key", prefix));
  }
}

void CheckTls(const DaemonConfig& config, Problems& out) {
  CheckTlsFiles("tls_", config.tls_cert, config.tls_key, config.tls_client_ca,
                out);
  CheckTlsFiles("metrics_tls_", config.metrics_tls_cert, config.metrics_tls_key,
                config.metrics_tls_client_ca, out);
  if (!config.metrics_tls_cert.empty() &&
      config.metrics_listen.starts_with('/')) {
    Add(out, "metrics_tls_cert",
        "a Unix socket at metrics_listen has no TLS; its permissions protect "
        "it");
  }
  for (const auto& [key, names] :
       {std::pair("admin_certificates", &config.admin_certificates),
        std::pair("writer_certificates", &config.writer_certificates),
        std::pair("reader_certificates", &config.reader_certificates)}) {
    if (names->empty() || !config.tls_client_ca.empty()) continue;
    Add(out, key,
        "requires tls_client_ca, without which certificates are not verified");
  }
}

}  // namespace

Problems FindProblems(const DaemonConfig& config) {
  Problems out;
  if (config.data_dir.empty()) Add(out, "data_dir", "is empty");
  if (config.socket_dir.empty()) Add(out, "socket_dir", "is empty");
  CheckSocketPath("socket_dir", config.IngestSocketPath(), out);
  CheckTls(config, out);
  CheckPeers(config, out);
  CheckMetrics(config, out);
  CheckListen(config, out);
  return out;
}

}  // namespace msitd::config
