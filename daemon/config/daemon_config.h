// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::config {

// Everything that can be set, validated; deploy/config/msitd.toml describes
// each key. A key of the file, a flag and a field have the same name. Not
// changed after the start.
struct DaemonConfig {
  std::string data_dir = "/var/lib/msitd";
  std::string socket_dir = "/run/msitd";
  // host:port; the Unix socket is always there. Port 0 is any free one.
  std::vector<std::string> listen;
  std::string log_level = "info";
  std::string log_format = "text";
  // host:port of this machine or the path of a Unix socket; empty for none.
  std::string metrics_listen;

  // Files in PEM. Certificate and key come together; with a client CA, clients
  // must show a certificate of it.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;

  // Other daemons whose runs may be compared with those of this one:
  // `host:port` or `unix:PATH`. With a CA, all but Unix sockets are reached
  // with TLS; certificate and key, which come together, show who asks.
  std::vector<std::string> peers;
  std::string peer_ca_file;
  std::string peer_certificate_file;
  std::string peer_key_file;
  int64_t peer_timeout_ms = 10'000;

  // Who may do what; see access/access_policy.h.
  std::string unix_role = "writer";
  std::string loopback_role = "reader";
  std::string tls_role = "reader";
  std::vector<std::string> admin_groups;
  std::vector<std::string> writer_groups;
  std::vector<std::string> reader_groups;
  std::vector<std::string> admin_certificates;
  std::vector<std::string> writer_certificates;
  std::vector<std::string> reader_certificates;
  int64_t caller_calls_per_s = 0;  // 0 is no bound.
  std::string audit_file;          // Empty: changes are not written down.

  int64_t digest_threads = 2;
  int64_t query_threads = 4;
  int64_t query_queue_max = 1024;
  int64_t comparison_threads = 2;

  int64_t max_streams = 384;
  int64_t stream_window_bytes = int64_t{32} << 20;
  bool shared_memory = true;
  int64_t ring_bytes_max = int64_t{1} << 30;
  int64_t ingest_buffer_bytes = int64_t{256} << 20;
  int64_t commit_interval_ms = 0;

  int64_t segment_bytes = int64_t{1} << 30;
  bool direct_io = true;
  // False for a store that goes with the program that made it.
  bool durable = true;
  int64_t index_write_buffer_bytes = int64_t{32} << 20;
  int64_t index_cache_bytes = int64_t{64} << 20;

  // Bounds of what is kept; 0 is no bound.
  int64_t retain_disk_bytes = 0;
  int64_t retain_disk_free_bytes = 0;
  int64_t retain_run_bytes = 0;
  int64_t retain_age_s = 0;
  int64_t retain_tokens = 0;
  int64_t retain_disk_margin_percent = 5;
  int64_t retain_comparison_bytes = int64_t{8} << 30;
  int64_t retain_comparison_age_s = 0;
  bool share_equal_bytes = true;

  // Folders of runs outside the store: URLs as storage/archive/archive_url.h
  // says. Sealed runs go to archive_url by themselves; empty for nowhere.
  std::vector<std::string> archives;
  std::string archive_url;
  std::string archive_s3_endpoint;
  std::string archive_s3_region = "us-east-1";
  std::string archive_s3_ca_file;        // PEM; empty: those of the system.
  std::string archive_credentials_file;  // Empty: the environment has them.

  // The check of stored bytes: 0 is none.
  int64_t verify_bytes_per_s = int64_t{8} << 20;
  int64_t verify_interval_s = 7 * 24 * 3600;

  // Niceness of all threads; 0 leaves it as it is.
  int64_t nice = 5;
  // The same for the threads that digest and write chunks, if it is higher.
  int64_t ingest_nice = 10;

  int64_t drain_timeout_ms = 20'000;

  // The Unix socket of the gRPC services.
  std::string SocketPath() const;

  // The Unix socket of producers that share memory.
  std::string IngestSocketPath() const;

  friend bool operator==(const DaemonConfig&, const DaemonConfig&) = default;
};

// Reads `text`, TOML that came from `file_name`, into `config`; keys that it
// does not have stay as they are.
//
// Errors: INVALID_ARGUMENT; one line for each bad key, each with
// "file:line:column: ".
absl::Status ApplyToml(std::string_view text, std::string_view file_name,
                       DaemonConfig& config);

// Sets one key from the text of its flag. Several values make sense for a list
// only; the single value `none` is the empty list.
//
// Errors: INVALID_ARGUMENT: "--flag: problem".
absl::Status ApplyFlag(std::string_view key,
                       std::span<const std::string> values,
                       DaemonConfig& config);

// Checks what no key can check alone: TLS where it is needed, addresses,
// lengths of paths.
absl::Status Validate(const DaemonConfig& config);

// Returns the TOML that ApplyToml reads `config` from.
std::string ToToml(const DaemonConfig& config);

// One key for a command line to offer.
struct KeyHelp {
  std::string_view key;
  std::string_view help;
  bool is_list = false;
};
std::vector<KeyHelp> Keys();

}  // namespace msitd::config
