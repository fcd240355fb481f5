// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::config {

// The complete, validated configuration. deploy/config/msitd.toml describes
// each key. A key in the file, its flag and its field have the same name.
// Constant, except for the keys that server/reloader.h can change.
struct DaemonConfig {
  std::string data_dir = "/var/lib/msitd";
  std::string socket_dir = "/run/msitd";
  // TCP addresses as host:port, in addition to the Unix socket. Port 0 selects
  // a free port.
  std::vector<std::string> listen;
  std::string log_level = "info";
  std::string log_format = "text";
  // A host:port or the path of a Unix socket; empty to disable. Addresses that
  // other machines can reach require a token, which is in a file, or
  // certificates of clients.
  std::string metrics_listen;
  std::string metrics_token_file;
  // PEM files for metrics_listen, with the rules of the three below.
  std::string metrics_tls_cert;
  std::string metrics_tls_key;
  std::string metrics_tls_client_ca;

  // PEM files. The certificate and the key must be set together. If a client CA
  // is set, clients must present a certificate signed by it.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;

  // Other daemons whose runs can be compared with the runs of this daemon, as
  // `host:port` or `unix:PATH`. If a CA is set, all peers except those on Unix
  // sockets are reached over TLS. The certificate and the key, which must be
  // set together, identify this daemon to its peers.
  std::vector<std::string> peers;
  std::string peer_ca_file;
  std::string peer_certificate_file;
  std::string peer_key_file;
  int64_t peer_timeout_ms = 10'000;

  // Access control; see access/access_policy.h.
  std::string unix_role = "writer";
  std::string loopback_role = "reader";
  std::string tls_role = "reader";
  std::vector<std::string> admin_groups;
  std::vector<std::string> writer_groups;
  std::vector<std::string> reader_groups;
  std::vector<std::string> admin_certificates;
  std::vector<std::string> writer_certificates;
  std::vector<std::string> reader_certificates;
  int64_t caller_calls_per_s = 0;  // 0: unlimited.
  std::string audit_file;          // Empty: no audit log.

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
  // Set to false for a store that is discarded when the program that created it
  // ends.
  bool durable = true;
  int64_t index_write_buffer_bytes = int64_t{32} << 20;
  int64_t index_cache_bytes = int64_t{64} << 20;

  // Retention limits; 0 means unlimited.
  int64_t retain_disk_bytes = 0;
  int64_t retain_disk_free_bytes = 0;
  int64_t retain_run_bytes = 0;
  int64_t retain_age_s = 0;
  int64_t retain_tokens = 0;
  int64_t retain_disk_margin_percent = 5;
  int64_t retain_comparison_bytes = int64_t{8} << 30;
  int64_t retain_comparison_age_s = 0;
  bool share_equal_bytes = true;

  // Archives are folders of runs outside the store;
  // storage/archive/archive_url.h defines their URLs. Sealed runs are copied to
  // archive_url automatically; if it is empty, they are not.
  std::vector<std::string> archives;
  std::string archive_url;
  std::string archive_s3_endpoint;
  std::string archive_s3_region = "us-east-1";
  std::string archive_s3_ca_file;        // PEM; empty: system CAs.
  std::string archive_credentials_file;  // Empty: from the environment.

  // Background verification of stored bytes; 0 disables it.
  int64_t verify_bytes_per_s = int64_t{8} << 20;
  int64_t verify_interval_s = 7 * 24 * 3600;

  // Niceness of all threads; 0 leaves it unchanged.
  int64_t nice = 5;
  // Niceness of the threads that digest and write chunks, if it is higher.
  int64_t ingest_nice = 10;

  int64_t drain_timeout_ms = 20'000;

  // The daemon ends after this time without streams, jobs and connections; 0:
  // never.
  int64_t idle_exit_s = 0;
  // Whether clients may start a personal daemon; see personal.h.
  bool start_on_demand = true;

  // Returns the path of the Unix socket of the gRPC services.
  std::string SocketPath() const;

  // Returns the path of the Unix socket for producers that share memory.
  std::string IngestSocketPath() const;

  friend bool operator==(const DaemonConfig&, const DaemonConfig&) = default;
};

// Reads the TOML in `text` into `config`. Keys that are absent from `text` keep
// their values. `file_name` is used in error messages.
//
// Errors: INVALID_ARGUMENT with one line for each invalid key, prefixed with
// "file:line:column: ".
absl::Status ApplyToml(std::string_view text, std::string_view file_name,
                       DaemonConfig& config);

// Sets one key from the values of its flag. Only a list accepts several values.
// The single value `none` stands for the empty list.
//
// Errors: INVALID_ARGUMENT: "--flag: problem".
absl::Status ApplyFlag(std::string_view key,
                       std::span<const std::string> values,
                       DaemonConfig& config);

// Returns the position `file:line:column` of each key in `text`. Empty if it is
// not TOML.
std::map<std::string, std::string, std::less<>> TomlPositions(
    std::string_view text, std::string_view file_name);

// Returns INVALID_ARGUMENT with one line for each of FindProblems
// (problems.h).
absl::Status Validate(const DaemonConfig& config);

// Returns the names of the keys whose values differ.
std::vector<std::string> ChangedKeys(const DaemonConfig& a,
                                     const DaemonConfig& b);

// Copies the value of one key; `key` must exist.
void CopyKey(std::string_view key, const DaemonConfig& from, DaemonConfig& to);

// Returns TOML from which ApplyToml restores `config`.
std::string ToToml(const DaemonConfig& config);

// Help for one key that the command line offers as a flag.
struct KeyHelp {
  std::string_view key;
  std::string_view help;
  bool is_list = false;
};
std::vector<KeyHelp> Keys();

}  // namespace msitd::config
