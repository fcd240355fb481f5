// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/daemon_config.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <variant>

// Header-only mode allows exceptions to be disabled.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "daemon/config/listen_address.h"
#include "protos/status/status.h"

namespace msitd::config {
namespace {

using Code = absl::StatusCode;

struct TextKey {
  std::string DaemonConfig::*field;
};
struct ListKey {
  std::vector<std::string> DaemonConfig::*field;
};
struct BoolKey {
  bool DaemonConfig::*field;
};
struct NumberKey {
  int64_t DaemonConfig::*field;
  int64_t min;
  int64_t max;
};
struct ChoiceKey {
  std::string DaemonConfig::*field;
  std::span<const std::string_view> choices;
};

struct Key {
  std::string_view name;
  std::variant<TextKey, ListKey, BoolKey, NumberKey, ChoiceKey> field;
  std::string_view help;
};

constexpr std::array<std::string_view, 4> kLogLevels = {"debug", "info", "warn",
                                                        "error"};
constexpr std::array<std::string_view, 4> kRoles = {"none", "reader", "writer",
                                                    "admin"};
constexpr std::array<std::string_view, 2> kLogFormats = {"text", "json"};
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kPiB = int64_t{1} << 50;

using C = DaemonConfig;

// Same order as deploy/config/msitd.toml.
const Key kKeys[] = {
    {"data_dir", TextKey{&C::data_dir}, "Directory of segments and index"},
    {"socket_dir", TextKey{&C::socket_dir}, "Directory of the Unix socket"},
    {"listen", ListKey{&C::listen},
     "host:port to listen on, repeatable; port 0 is any free one; 'none' "
     "leaves the Unix socket alone"},
    {"log_level", ChoiceKey{&C::log_level, kLogLevels},
     "debug, info, warn or error"},
    {"log_format", ChoiceKey{&C::log_format, kLogFormats},
     "text, or json: an object a line"},
    {"metrics_listen", TextKey{&C::metrics_listen},
     "host:port of this machine, or path of a Unix socket, where "
     "GET /metrics is answered; empty for none"},
    {"tls_cert", TextKey{&C::tls_cert}, "Certificate chain of TCP, PEM"},
    {"tls_key", TextKey{&C::tls_key}, "Private key of TCP, PEM"},
    {"tls_client_ca", TextKey{&C::tls_client_ca},
     "CA that the certificates of clients must come from, PEM"},
    {"peers", ListKey{&C::peers},
     "Daemon whose runs may be compared with those of this one, host:port or "
     "unix:PATH, repeatable"},
    {"peer_ca_file", TextKey{&C::peer_ca_file},
     "CA that the certificates of peers must come from, PEM"},
    {"peer_certificate_file", TextKey{&C::peer_certificate_file},
     "Certificate chain to show to peers, PEM"},
    {"peer_key_file", TextKey{&C::peer_key_file},
     "Private key of that certificate, PEM"},
    {"peer_timeout_ms", NumberKey{&C::peer_timeout_ms, 100, 3'600'000},
     "How long a peer may say nothing or be out of reach"},
    {"unix_role", ChoiceKey{&C::unix_role, kRoles},
     "Role of callers over the Unix sockets: none, reader, writer or admin"},
    {"loopback_role", ChoiceKey{&C::loopback_role, kRoles},
     "Role of callers from this machine over TCP without TLS"},
    {"tls_role", ChoiceKey{&C::tls_role, kRoles},
     "Role of callers over TLS whose certificate has no role of its own"},
    {"admin_groups", ListKey{&C::admin_groups},
     "Groups whose members are admins, repeatable"},
    {"writer_groups", ListKey{&C::writer_groups},
     "Groups whose members are writers, repeatable"},
    {"reader_groups", ListKey{&C::reader_groups},
     "Groups whose members are readers, repeatable"},
    {"admin_certificates", ListKey{&C::admin_certificates},
     "Names in certificates of admins, with * and ?, repeatable"},
    {"writer_certificates", ListKey{&C::writer_certificates},
     "Names in certificates of writers, with * and ?, repeatable"},
    {"reader_certificates", ListKey{&C::reader_certificates},
     "Names in certificates of readers, with * and ?, repeatable"},
    {"caller_calls_per_s", NumberKey{&C::caller_calls_per_s, 0, 1'000'000'000},
     "Calls that each caller may begin in a second; 0 is no bound"},
    {"audit_file", TextKey{&C::audit_file},
     "File that tells who read bytes, changed something or was refused; empty "
     "for none"},
    {"digest_threads", NumberKey{&C::digest_threads, 1, 256},
     "Threads that take summaries and hashes"},
    {"query_threads", NumberKey{&C::query_threads, 1, 256},
     "Threads that answer queries; half as many more reduce"},
    {"query_queue_max", NumberKey{&C::query_queue_max, 1, 1'000'000},
     "Requests that may wait for a query thread"},
    {"comparison_threads", NumberKey{&C::comparison_threads, 1, 256},
     "Comparisons that run at a time"},
    {"max_streams", NumberKey{&C::max_streams, 1, 65'536},
     "Streams of producers that may be open"},
    {"stream_window_bytes",
     NumberKey{&C::stream_window_bytes, 8 * kMiB, 64 * kGiB},
     "Uncommitted bytes at which a stream is told to wait"},
    {"shared_memory", BoolKey{&C::shared_memory},
     "Take chunks of local ranks out of memory that they share"},
    {"ring_bytes_max", NumberKey{&C::ring_bytes_max, 16 * kMiB, kGiB},
     "Largest memory that one rank may share"},
    {"ingest_buffer_bytes",
     NumberKey{&C::ingest_buffer_bytes, 16 * kMiB, 1024 * kGiB},
     "Memory for chunks that came over gRPC"},
    {"commit_interval_ms", NumberKey{&C::commit_interval_ms, 0, 60'000},
     "How long a chunk may wait for others to share its sync"},
    {"segment_bytes", NumberKey{&C::segment_bytes, 16 * kMiB, 1024 * kGiB},
     "Size at which a segment is sealed"},
    {"direct_io", BoolKey{&C::direct_io},
     "Write segments with O_DIRECT where the file system can"},
    {"durable", BoolKey{&C::durable},
     "Wait for the disk; false only for a store that goes with the program "
     "that made it"},
    {"index_write_buffer_bytes",
     NumberKey{&C::index_write_buffer_bytes, kMiB, 64 * kGiB},
     "Memory for index entries that are not on disk yet"},
    {"index_cache_bytes", NumberKey{&C::index_cache_bytes, kMiB, 1024 * kGiB},
     "Memory for the block cache of the index"},
    {"retain_disk_bytes", NumberKey{&C::retain_disk_bytes, 0, kPiB},
     "Disk that segments and the index may take, without comparisons; the "
     "oldest bytes go; 0 is no limit"},
    {"retain_disk_free_bytes", NumberKey{&C::retain_disk_free_bytes, 0, kPiB},
     "Disk to leave free; the oldest bytes go; 0 is none"},
    {"retain_run_bytes", NumberKey{&C::retain_run_bytes, 0, kPiB},
     "Bytes of tensors that each run keeps; 0 is no limit"},
    {"retain_age_s", NumberKey{&C::retain_age_s, 0, 1'000'000'000},
     "Seconds that bytes of tensors are kept; 0 is no limit"},
    {"retain_tokens", NumberKey{&C::retain_tokens, 0, int64_t{1} << 40},
     "Tokens of which each run keeps bytes; 0 is no limit"},
    {"retain_disk_margin_percent",
     NumberKey{&C::retain_disk_margin_percent, 0, 50},
     "How far behind a limit of the disk bytes go once it is passed"},
    {"retain_comparison_bytes", NumberKey{&C::retain_comparison_bytes, 0, kPiB},
     "Bytes of all comparisons, before compression; the oldest of the same "
     "owner go; 0 is no limit"},
    {"retain_comparison_age_s",
     NumberKey{&C::retain_comparison_age_s, 0, 1'000'000'000},
     "Seconds that comparisons are kept; 0 is no limit"},
    {"share_equal_bytes", BoolKey{&C::share_equal_bytes},
     "Keep equal bytes of a run once"},
    {"archives", ListKey{&C::archives},
     "Archives that may be read and written, with what lies below them: "
     "file:///DIR or s3://BUCKET/PREFIX, repeatable"},
    {"archive_url", TextKey{&C::archive_url},
     "Archive that each run goes to once it is sealed; empty for none"},
    {"archive_s3_endpoint", TextKey{&C::archive_s3_endpoint},
     "Server of s3:// archives: https://HOST[:PORT], or http:// of this "
     "machine"},
    {"archive_s3_region", TextKey{&C::archive_s3_region},
     "Region that requests to that server are signed for"},
    {"archive_s3_ca_file", TextKey{&C::archive_s3_ca_file},
     "CA that the certificate of that server must come from, PEM; empty for "
     "those of the system"},
    {"archive_credentials_file", TextKey{&C::archive_credentials_file},
     "File with the key for that server; empty for the environment"},
    {"verify_bytes_per_s", NumberKey{&C::verify_bytes_per_s, 0, kGiB},
     "Stored bytes to read again and check in a second; 0 checks nothing"},
    {"verify_interval_s", NumberKey{&C::verify_interval_s, 0, 1'000'000'000},
     "Seconds from the end of such a round over the store to the next"},
    {"nice", NumberKey{&C::nice, 0, 19},
     "Niceness of the daemon's threads; 0 leaves it as it is"},
    {"ingest_nice", NumberKey{&C::ingest_nice, 0, 19},
     "Niceness of the threads that digest and write chunks, if it is higher"},
    {"drain_timeout_ms", NumberKey{&C::drain_timeout_ms, 0, 3'600'000},
     "How long a stop may take before it is forced"},
};

const Key* FindKey(std::string_view name) {
  for (const Key& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

// The setters return a description of the problem, or an empty string on
// success.

std::string SetNumber(const NumberKey& key, int64_t value, C& config) {
  if (value < key.min || value > key.max) {
    return fmt::format("{} is not in {}..{}", value, key.min, key.max);
  }
  config.*key.field = value;
  return {};
}

std::string SetChoice(const ChoiceKey& key, const std::string& value,
                      C& config) {
  if (std::find(key.choices.begin(), key.choices.end(), value) ==
      key.choices.end()) {
    return fmt::format("'{}' is none of {}", value,
                       fmt::join(key.choices, ", "));
  }
  config.*key.field = value;
  return {};
}

std::string SetText(const TextKey& key, const std::string& value, C& config) {
  if (value.find('\0') != std::string::npos) return "contains a NUL";
  config.*key.field = value;
  return {};
}

struct TomlSetter {
  const toml::node& node;
  C& config;

  std::string Wrong(std::string_view expected) const {
    std::ostringstream type;
    type << node.type();
    return fmt::format("is of type {}, expected {}", type.str(), expected);
  }

  std::string operator()(const TextKey& key) const {
    const auto* value = node.as_string();
    if (value == nullptr) return Wrong("a string");
    return SetText(key, value->get(), config);
  }
  std::string operator()(const ChoiceKey& key) const {
    const auto* value = node.as_string();
    if (value == nullptr) return Wrong("a string");
    return SetChoice(key, value->get(), config);
  }
  std::string operator()(const BoolKey& key) const {
    const auto* value = node.as_boolean();
    if (value == nullptr) return Wrong("true or false");
    config.*key.field = value->get();
    return {};
  }
  std::string operator()(const NumberKey& key) const {
    const auto* value = node.as_integer();
    if (value == nullptr) return Wrong("an integer");
    return SetNumber(key, value->get(), config);
  }
  std::string operator()(const ListKey& key) const {
    const auto* array = node.as_array();
    if (array == nullptr) return Wrong("an array of strings");
    std::vector<std::string> out;
    for (const toml::node& element : *array) {
      const auto* value = element.as_string();
      if (value == nullptr) return "has an element that is no string";
      out.push_back(value->get());
    }
    config.*key.field = std::move(out);
    return {};
  }
};

struct FlagSetter {
  std::span<const std::string> values;
  C& config;

  std::string operator()(const TextKey& key) const {
    return SetText(key, values.back(), config);
  }
  std::string operator()(const ChoiceKey& key) const {
    return SetChoice(key, values.back(), config);
  }
  std::string operator()(const BoolKey& key) const {
    const std::string& text = values.back();
    if (text != "true" && text != "false") {
      return fmt::format("'{}' is not true or false", text);
    }
    config.*key.field = text == "true";
    return {};
  }
  std::string operator()(const NumberKey& key) const {
    const std::string& text = values.back();
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} ||
        end != text.data() + text.size()) {
      return fmt::format("'{}' is not an integer", text);
    }
    return SetNumber(key, value, config);
  }
  std::string operator()(const ListKey& key) const {
    const bool none = values.size() == 1 && values[0] == "none";
    config.*key.field = none ? std::vector<std::string>{}
                             : std::vector(values.begin(), values.end());
    return {};
  }
};

struct TomlPrinter {
  const C& config;

  static std::string Quoted(const std::string& text) {
    std::ostringstream out;
    out << toml::value<std::string>(text);
    return out.str();
  }

  std::string operator()(const TextKey& key) const {
    return Quoted(config.*key.field);
  }
  std::string operator()(const ChoiceKey& key) const {
    return Quoted(config.*key.field);
  }
  std::string operator()(const BoolKey& key) const {
    return config.*key.field ? "true" : "false";
  }
  std::string operator()(const NumberKey& key) const {
    return std::to_string(config.*key.field);
  }
  std::string operator()(const ListKey& key) const {
    std::vector<std::string> quoted;
    for (const std::string& text : config.*key.field) {
      quoted.push_back(Quoted(text));
    }
    return fmt::format("[{}]", fmt::join(quoted, ", "));
  }
};

absl::Status Invalid(std::string_view field, std::string_view problem) {
  return MakeStatus(Code::kInvalidArgument, "{}: {}", field, problem);
}

absl::Status ValidateListen(const C& config) {
  for (const std::string& text : config.listen) {
    const auto address = ParseListenAddress(text);
    if (!address.ok()) return Invalid("listen", Message(address.status()));
    if (!address->is_loopback && config.tls_cert.empty()) {
      return Invalid("listen",
                     fmt::format("'{}' is reachable from other machines, which "
                                 "needs tls_cert and tls_key",
                                 text));
    }
    if (!address->is_plain_loopback && config.tls_cert.empty()) {
      return Invalid("listen",
                     fmt::format("'{}': without tls_cert and tls_key, take "
                                 "127.0.0.1, [::1] or localhost",
                                 text));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePeers(const C& config) {
  constexpr size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
  constexpr std::string_view kUnix = "unix:";
  if (config.peer_certificate_file.empty() != config.peer_key_file.empty()) {
    return Invalid(config.peer_key_file.empty() ? "peer_certificate_file"
                                                : "peer_key_file",
                   "peer_certificate_file and peer_key_file come together");
  }
  if (!config.peer_certificate_file.empty() && config.peer_ca_file.empty()) {
    return Invalid("peer_certificate_file",
                   "needs peer_ca_file: nobody checks the peer");
  }
  for (const std::string& peer : config.peers) {
    if (peer.starts_with(kUnix)) {
      const std::string_view path = std::string_view(peer).substr(kUnix.size());
      if (!path.starts_with('/') || path.size() > kSocketPathMax) {
        return Invalid("peers", fmt::format("'{}' has no absolute path of at "
                                            "most {} bytes",
                                            peer, kSocketPathMax));
      }
      continue;
    }
    const auto address = ParseListenAddress(peer);
    if (!address.ok()) return Invalid("peers", Message(address.status()));
    if (address->port == 0) {
      return Invalid("peers", fmt::format("'{}' has no port", peer));
    }
    if (!address->is_plain_loopback && config.peer_ca_file.empty()) {
      return Invalid("peers",
                     fmt::format("'{}' is on another machine, which needs "
                                 "peer_ca_file",
                                 peer));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMetricsListen(const std::string& text) {
  constexpr size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (text.empty()) return absl::OkStatus();
  if (text.front() == '/') {
    if (text.size() <= kSocketPathMax) return absl::OkStatus();
    return Invalid("metrics_listen",
                   fmt::format("'{}' has {} bytes, a socket path at most {}",
                               text, text.size(), kSocketPathMax));
  }
  const auto address = ParseListenAddress(text);
  if (!address.ok()) {
    return Invalid("metrics_listen", Message(address.status()));
  }
  if (address->is_loopback) return absl::OkStatus();
  return Invalid("metrics_listen",
                 fmt::format("'{}' is reachable from other machines; take an "
                             "address of this machine or a path",
                             text));
}

}  // namespace

std::string DaemonConfig::SocketPath() const {
  return socket_dir + "/msitd.sock";
}

std::string DaemonConfig::IngestSocketPath() const {
  return socket_dir + "/ingest.sock";
}

absl::Status ApplyToml(std::string_view text, std::string_view file_name,
                       DaemonConfig& config) {
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return MakeStatus(Code::kInvalidArgument, "{}:{}:{}: {}", file_name,
                      error.source().begin.line, error.source().begin.column,
                      error.description());
  }
  struct Problem {
    toml::source_position place;
    std::string text;
  };
  std::vector<Problem> problems;
  for (const auto& [name, node] : parsed.table()) {
    const toml::source_position place = name.source().begin;
    const Key* key = FindKey(name.str());
    const std::string problem =
        key == nullptr ? "no such key"
                       : std::visit(TomlSetter{node, config}, key->field);
    if (!problem.empty()) {
      problems.push_back(
          {place, fmt::format("{}:{}:{}: {}: {}", file_name, place.line,
                              place.column, name.str(), problem)});
    }
  }
  if (problems.empty()) return absl::OkStatus();
  std::sort(problems.begin(), problems.end(),
            [](const Problem& a, const Problem& b) {
              return std::pair(a.place.line, a.place.column) <
                     std::pair(b.place.line, b.place.column);
            });
  std::string message;
  for (const Problem& problem : problems) {
    if (!message.empty()) message += '\n';
    message += problem.text;
  }
  return absl::InvalidArgumentError(message);
}

absl::Status ApplyFlag(std::string_view key,
                       std::span<const std::string> values,
                       DaemonConfig& config) {
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  const Key* found = FindKey(key);
  if (found == nullptr) return Invalid("--" + flag, "no such key");
  if (values.empty()) return Invalid("--" + flag, "needs a value");
  const std::string problem =
      std::visit(FlagSetter{values, config}, found->field);
  if (problem.empty()) return absl::OkStatus();
  return Invalid("--" + flag, problem);
}

absl::Status Validate(const DaemonConfig& config) {
  if (config.data_dir.empty()) return Invalid("data_dir", "is empty");
  if (config.socket_dir.empty()) return Invalid("socket_dir", "is empty");
  constexpr size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 1;
  if (const std::string path = config.IngestSocketPath();
      path.size() > kSocketPathMax) {
    return Invalid("socket_dir",
                   fmt::format("'{}' has {} bytes, a socket path at most {}",
                               path, path.size(), kSocketPathMax));
  }
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return Invalid(config.tls_cert.empty() ? "tls_key" : "tls_cert",
                   "tls_cert and tls_key come together");
  }
  if (!config.tls_client_ca.empty() && config.tls_cert.empty()) {
    return Invalid("tls_client_ca", "needs tls_cert and tls_key");
  }
  for (const auto& [key, names] :
       {std::pair("admin_certificates", &config.admin_certificates),
        std::pair("writer_certificates", &config.writer_certificates),
        std::pair("reader_certificates", &config.reader_certificates)}) {
    if (!names->empty() && config.tls_client_ca.empty()) {
      return Invalid(key, "needs tls_client_ca: nobody checks certificates");
    }
  }
  MSITD_RETURN_IF_ERROR(ValidatePeers(config));
  MSITD_RETURN_IF_ERROR(ValidateMetricsListen(config.metrics_listen));
  return ValidateListen(config);
}

std::string ToToml(const DaemonConfig& config) {
  std::string out;
  for (const Key& key : kKeys) {
    out += fmt::format("{} = {}\n", key.name,
                       std::visit(TomlPrinter{config}, key.field));
  }
  return out;
}

std::vector<KeyHelp> Keys() {
  std::vector<KeyHelp> out;
  for (const Key& key : kKeys) {
    out.push_back(
        {key.name, key.help, std::holds_alternative<ListKey>(key.field)});
  }
  return out;
}

}  // namespace msitd::config
