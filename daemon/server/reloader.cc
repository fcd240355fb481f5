// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/reloader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/log/log.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

// All other keys determine threads, sockets, files or memory that exist for as
// long as the daemon. The contents of the TLS files are read again separately.
constexpr std::string_view kReloadable[] = {"log_level",
                                            "metrics_token_file",
                                            "unix_role",
                                            "loopback_role",
                                            "tls_role",
                                            "admin_groups",
                                            "writer_groups",
                                            "reader_groups",
                                            "admin_certificates",
                                            "writer_certificates",
                                            "reader_certificates",
                                            "caller_calls_per_s",
                                            "audit_file",
                                            "retain_disk_bytes",
                                            "retain_disk_free_bytes",
                                            "retain_run_bytes",
                                            "retain_age_s",
                                            "retain_tokens",
                                            "retain_disk_margin_percent",
                                            "retain_comparison_bytes",
                                            "retain_comparison_age_s",
                                            "share_equal_bytes",
                                            "verify_bytes_per_s",
                                            "verify_interval_s",
                                            "drain_timeout_ms",
                                            "start_on_demand"};

void LogKept(const ConfigChange& change) {
  if (change.kept.empty()) return;
  log::Get("server")->warn("reload: these keys require a restart keys='{}'",
                           fmt::join(change.kept, ","));
}

}  // namespace

bool IsReloadable(std::string_view key) {
  return std::find(std::begin(kReloadable), std::end(kReloadable), key) !=
         std::end(kReloadable);
}

ConfigChange ChangeOf(const config::DaemonConfig& current,
                      const config::DaemonConfig& next) {
  ConfigChange out = {current, {}, {}};
  for (const std::string& key : config::ChangedKeys(current, next)) {
    const bool is_reloadable = IsReloadable(key);
    if (is_reloadable) config::CopyKey(key, next, out.config);
    (is_reloadable ? out.applied : out.kept).push_back(key);
  }
  return out;
}

Reloader::Reloader(config::DaemonConfig config, ReadConfig reread)
    : config_(std::move(config)), reread_(std::move(reread)) {}

void Reloader::Reload(NodeServer& node) {
  const auto log = log::Get("server");
  if (const std::string problem = node.ReloadTls(); !problem.empty()) {
    log->warn("reload: the TLS files have not changed reason='{}'", problem);
  }
  if (!reread_) {
    log->info("reload: this daemon has no configuration to read again");
    return;
  }
  const absl::StatusOr<config::DaemonConfig> next = reread_();
  if (!next.ok()) {
    log->error("reload failed, the configuration stays as it was error='{}'",
               Message(next.status()));
    return;
  }
  const ConfigChange change = ChangeOf(config_, *next);
  // A key may need another one that requires a restart, such as the names of
  // certificates that need tls_client_ca.
  absl::Status status = config::Validate(change.config);
  if (status.ok()) status = node.Reload(change.config);
  if (!status.ok()) {
    log->error("reload failed, the configuration stays as it was error='{}'",
               Message(status));
    return LogKept(change);
  }
  config_ = change.config;
  log->info("reloaded changed='{}'", fmt::join(change.applied, ","));
  LogKept(change);
}

}  // namespace msitd::server
