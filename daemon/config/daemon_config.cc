// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/daemon_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <variant>

// Header-only mode allows exceptions to be disabled.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "daemon/config/problems.h"
#include "daemon/config/quantity.h"
#include "protos/status/status.h"
#include "protos/text/nearest.h"

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
    {"data_dir", TextKey{&C::data_dir},
     "Directory of the segments and the index"},
    {"socket_dir", TextKey{&C::socket_dir}, "Directory of the Unix sockets"},
    {"listen", ListKey{&C::listen},
     "TCP address to listen on, as host:port; repeatable. Port 0 selects a "
     "free port. 'none' listens only on the Unix socket"},
    {"log_level", ChoiceKey{&C::log_level, kLogLevels},
     "Minimum severity of log lines: debug, info, warn or error"},
    {"log_format", ChoiceKey{&C::log_format, kLogFormats},
     "Format of log lines: text, or json for one object per line"},
    {"metrics_listen", TextKey{&C::metrics_listen},
     "Address at which Prometheus scrapes GET /metrics: host:port, or the path "
     "of a Unix socket. Empty: metrics are not served"},
    {"metrics_token_file", TextKey{&C::metrics_token_file},
     "File with the token that a scraper sends as 'Authorization: Bearer "
     "TOKEN'. Required if other machines can reach metrics_listen, unless "
     "metrics_tls_client_ca is set"},
    {"metrics_tls_cert", TextKey{&C::metrics_tls_cert},
     "Certificate chain for TLS at metrics_listen, PEM. Empty: no TLS there"},
    {"metrics_tls_key", TextKey{&C::metrics_tls_key},
     "Private key of metrics_tls_cert, PEM"},
    {"metrics_tls_client_ca", TextKey{&C::metrics_tls_client_ca},
     "CA that must have signed the certificates of scrapers, PEM"},
    {"tls_cert", TextKey{&C::tls_cert}, "Certificate chain for TLS, PEM"},
    {"tls_key", TextKey{&C::tls_key}, "Private key of tls_cert, PEM"},
    {"tls_client_ca", TextKey{&C::tls_client_ca},
     "CA that must have signed the certificates of clients, PEM"},
    {"peers", ListKey{&C::peers},
     "Other daemon whose runs can be compared with runs of this daemon: "
     "host:port or unix:PATH; repeatable"},
    {"peer_ca_file", TextKey{&C::peer_ca_file},
     "CA that must have signed the certificates of peers, PEM"},
    {"peer_certificate_file", TextKey{&C::peer_certificate_file},
     "Certificate chain that identifies this daemon to its peers, PEM"},
    {"peer_key_file", TextKey{&C::peer_key_file},
     "Private key of peer_certificate_file, PEM"},
    {"peer_timeout_ms", NumberKey{&C::peer_timeout_ms, 100, 3'600'000},
     "How long a peer may be silent or unreachable before a comparison fails"},
    {"unix_role", ChoiceKey{&C::unix_role, kRoles},
     "Role of callers on the Unix sockets: none, reader, writer or admin"},
    {"loopback_role", ChoiceKey{&C::loopback_role, kRoles},
     "Role of callers on this machine over TCP without TLS"},
    {"tls_role", ChoiceKey{&C::tls_role, kRoles},
     "Role of callers over TLS without a higher role"},
    {"admin_groups", ListKey{&C::admin_groups},
     "Groups whose members are admins; repeatable"},
    {"writer_groups", ListKey{&C::writer_groups},
     "Groups whose members are writers; repeatable"},
    {"reader_groups", ListKey{&C::reader_groups},
     "Groups whose members are readers; repeatable"},
    {"admin_certificates", ListKey{&C::admin_certificates},
     "Names in certificates of admins, with * and ? as wildcards; repeatable"},
    {"writer_certificates", ListKey{&C::writer_certificates},
     "Names in certificates of writers, with * and ? as wildcards; repeatable"},
    {"reader_certificates", ListKey{&C::reader_certificates},
     "Names in certificates of readers, with * and ? as wildcards; repeatable"},
    {"caller_calls_per_s", NumberKey{&C::caller_calls_per_s, 0, 1'000'000'000},
     "Maximum number of calls per second that one caller may begin; 0 means "
     "unlimited"},
    {"audit_file", TextKey{&C::audit_file},
     "Audit log: one line of JSON for each call that read bytes, changed "
     "something or was rejected. Empty: no audit log"},
    {"digest_threads", NumberKey{&C::digest_threads, 1, 256},
     "Number of threads that compute summaries and hashes"},
    {"query_threads", NumberKey{&C::query_threads, 1, 256},
     "Number of threads that answer queries. Half as many additional threads "
     "run reductions"},
    {"query_queue_max", NumberKey{&C::query_queue_max, 1, 1'000'000},
     "Maximum number of requests that wait for a query thread"},
    {"comparison_threads", NumberKey{&C::comparison_threads, 1, 256},
     "Number of comparisons that run at the same time"},
    {"max_streams", NumberKey{&C::max_streams, 1, 65'536},
     "Maximum number of open producer streams"},
    {"stream_window_bytes",
     NumberKey{&C::stream_window_bytes, 8 * kMiB, 64 * kGiB},
     "Uncommitted bytes of one stream at which its producer has to wait"},
    {"shared_memory", BoolKey{&C::shared_memory},
     "Receive the chunks of local ranks through memory that they share with "
     "the daemon"},
    {"ring_bytes_max", NumberKey{&C::ring_bytes_max, 16 * kMiB, kGiB},
     "Maximum size of the memory that one rank shares"},
    {"ingest_buffer_bytes",
     NumberKey{&C::ingest_buffer_bytes, 16 * kMiB, 1024 * kGiB},
     "Memory for chunks that arrive over gRPC"},
    {"commit_interval_ms", NumberKey{&C::commit_interval_ms, 0, 60'000},
     "How long a chunk may wait to share its sync to disk with others"},
    {"segment_bytes", NumberKey{&C::segment_bytes, 16 * kMiB, 1024 * kGiB},
     "Size at which a segment is sealed and the next one is created"},
    {"direct_io", BoolKey{&C::direct_io},
     "Write segments with O_DIRECT if the file system supports it"},
    {"durable", BoolKey{&C::durable},
     "Wait for the disk before a chunk is acknowledged. Use false only for a "
     "store that is discarded when the program that created it ends"},
    {"index_write_buffer_bytes",
     NumberKey{&C::index_write_buffer_bytes, kMiB, 64 * kGiB},
     "Memory for index entries that are not on disk yet"},
    {"index_cache_bytes", NumberKey{&C::index_cache_bytes, kMiB, 1024 * kGiB},
     "Memory for the block cache of the index"},
    {"retain_disk_bytes", NumberKey{&C::retain_disk_bytes, 0, kPiB},
     "Maximum disk space of the segments and the index, without comparisons. "
     "Beyond it, the oldest bytes of tensors expire. 0 means unlimited"},
    {"retain_disk_free_bytes", NumberKey{&C::retain_disk_free_bytes, 0, kPiB},
     "Disk space that stays free. Below it, the oldest bytes of tensors "
     "expire. 0 means unlimited"},
    {"retain_run_bytes", NumberKey{&C::retain_run_bytes, 0, kPiB},
     "Maximum bytes of tensors that each run keeps; 0 means unlimited"},
    {"retain_age_s", NumberKey{&C::retain_age_s, 0, 1'000'000'000},
     "Maximum age of bytes of tensors in seconds; 0 means unlimited"},
    {"retain_tokens", NumberKey{&C::retain_tokens, 0, int64_t{1} << 40},
     "Maximum number of tokens of which each run keeps bytes, the highest "
     "first; 0 means unlimited"},
    {"retain_disk_margin_percent",
     NumberKey{&C::retain_disk_margin_percent, 0, 50},
     "Once a disk limit is exceeded, free space down to this percentage below "
     "it"},
    {"retain_comparison_bytes", NumberKey{&C::retain_comparison_bytes, 0, kPiB},
     "Maximum bytes of all comparisons, before compression. Beyond it, the "
     "owner's oldest comparisons are removed. 0 means unlimited"},
    {"retain_comparison_age_s",
     NumberKey{&C::retain_comparison_age_s, 0, 1'000'000'000},
     "Maximum age of comparisons in seconds; 0 means unlimited"},
    {"share_equal_bytes", BoolKey{&C::share_equal_bytes},
     "Store equal bytes of a run once"},
    {"archives", ListKey{&C::archives},
     "Archive that may be read and written, with everything below it: "
     "file:///DIR or s3://BUCKET/PREFIX; repeatable"},
    {"archive_url", TextKey{&C::archive_url},
     "Archive to which each run is copied after it is sealed. Empty: runs are "
     "not archived automatically"},
    {"archive_s3_endpoint", TextKey{&C::archive_s3_endpoint},
     "Server of s3:// archives: https://HOST[:PORT], or http:// on this "
     "machine"},
    {"archive_s3_region", TextKey{&C::archive_s3_region},
     "Region for which requests to that server are signed"},
    {"archive_s3_ca_file", TextKey{&C::archive_s3_ca_file},
     "CA that must have signed the certificate of that server, PEM. Empty: the "
     "CAs that the system trusts"},
    {"archive_credentials_file", TextKey{&C::archive_credentials_file},
     "File with the access key for that server. Empty: the key is read from "
     "the environment"},
    {"verify_bytes_per_s", NumberKey{&C::verify_bytes_per_s, 0, kGiB},
     "Rate at which stored bytes are read again and compared with their "
     "hashes; 0 disables the verification"},
    {"verify_interval_s", NumberKey{&C::verify_interval_s, 0, 1'000'000'000},
     "Pause in seconds between two rounds of verification over the store"},
    {"nice", NumberKey{&C::nice, 0, 19},
     "Niceness of the daemon's threads; 0 leaves it unchanged"},
    {"ingest_nice", NumberKey{&C::ingest_nice, 0, 19},
     "Niceness of the threads that digest and write chunks, if it is higher"},
    {"drain_timeout_ms", NumberKey{&C::drain_timeout_ms, 0, 3'600'000},
     "How long a stop may take before it is forced"},
    {"idle_exit_s", NumberKey{&C::idle_exit_s, 0, 1'000'000'000},
     "End after this many seconds without streams, jobs and connections; 0: "
     "never"},
    {"start_on_demand", BoolKey{&C::start_on_demand},
     "With --personal: false refuses to start, so that no client starts a "
     "daemon for its user"},
};

// Returns `; did you mean KEY?`; empty if no key is similar.
std::string DidYouMean(std::string_view name) {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  const std::string nearest = text::Nearest(name, names);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

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

std::string SetQuantity(const NumberKey& key, Unit unit,
                        const std::string& text, C& config) {
  const absl::StatusOr<int64_t> value = ParseQuantity(text, unit);
  if (!value.ok()) return std::string(Message(value.status()));
  return SetNumber(key, *value, config);
}

std::string SetChoice(const ChoiceKey& key, const std::string& value,
                      C& config) {
  if (std::find(key.choices.begin(), key.choices.end(), value) ==
      key.choices.end()) {
    return fmt::format("'{}' is not one of {}", value,
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
  std::string_view name;
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
    if (const auto* value = node.as_integer()) {
      return SetNumber(key, value->get(), config);
    }
    const auto* text = node.as_string();
    const Unit unit = UnitOf(name);
    if (text == nullptr || unit == Unit::kNone) {
      return Wrong(unit == Unit::kNone ? "an integer"
                                       : "an integer or a string with a unit");
    }
    return SetQuantity(key, unit, text->get(), config);
  }
  std::string operator()(const ListKey& key) const {
    const auto* array = node.as_array();
    if (array == nullptr) return Wrong("an array of strings");
    std::vector<std::string> out;
    for (const toml::node& element : *array) {
      const auto* value = element.as_string();
      if (value == nullptr) return "has an element that is not a string";
      out.push_back(value->get());
    }
    config.*key.field = std::move(out);
    return {};
  }
};

struct FlagSetter {
  std::string_view name;
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
    return SetQuantity(key, UnitOf(name), values.back(), config);
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
        key == nullptr
            ? "no such key" + DidYouMean(name.str())
            : std::visit(TomlSetter{key->name, node, config}, key->field);
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
  if (found == nullptr) {
    return Invalid("--" + flag, "no such key" + DidYouMean(key));
  }
  if (values.empty()) return Invalid("--" + flag, "needs a value");
  const std::string problem =
      std::visit(FlagSetter{found->name, values, config}, found->field);
  if (problem.empty()) return absl::OkStatus();
  return Invalid("--" + flag, problem);
}

absl::Status Validate(const DaemonConfig& config) {
  std::string message;
  for (const KeyProblem& problem : FindProblems(config)) {
    message += fmt::format("{}{}: {}", message.empty() ? "" : "\n", problem.key,
                           problem.text);
  }
  return message.empty() ? absl::OkStatus()
                         : absl::InvalidArgumentError(message);
}

std::map<std::string, std::string, std::less<>> TomlPositions(
    std::string_view text, std::string_view file_name) {
  std::map<std::string, std::string, std::less<>> out;
  const toml::parse_result parsed = toml::parse(text, file_name);
  if (!parsed) return out;
  for (const auto& [name, node] : parsed.table()) {
    const toml::source_position place = name.source().begin;
    out.emplace(name.str(),
                fmt::format("{}:{}:{}", file_name, place.line, place.column));
  }
  return out;
}

std::vector<std::string> ChangedKeys(const DaemonConfig& a,
                                     const DaemonConfig& b) {
  std::vector<std::string> out;
  for (const Key& key : kKeys) {
    const bool is_equal = std::visit(
        [&](const auto& k) { return a.*k.field == b.*k.field; }, key.field);
    if (!is_equal) out.emplace_back(key.name);
  }
  return out;
}

void CopyKey(std::string_view key, const DaemonConfig& from, DaemonConfig& to) {
  std::visit([&](const auto& k) { to.*k.field = from.*k.field; },
             FindKey(key)->field);
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
