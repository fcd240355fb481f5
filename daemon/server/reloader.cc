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

// Contents of the files with these keys are read again by themselves.
constexpr std::string_view kReloadable[] = {"log_level",
                                            "retain_disk_bytes",
                                            "retain_disk_free_bytes",
                                            "retain_disk_margin_percent",
                                            "retain_run_bytes",
                                            "retain_age_s",
                                            "retain_tokens",
                                            "retain_comparison_bytes",
                                            "retain_comparison_age_s"};

}  // namespace

ConfigChange ChangeOf(const config::DaemonConfig& current,
                      const config::DaemonConfig& next) {
  ConfigChange out = {current, {}, {}};
  for (const std::string& key : config::ChangedKeys(current, next)) {
    const bool is_reloadable =
        std::find(std::begin(kReloadable), std::end(kReloadable), key) !=
        std::end(kReloadable);
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
  config_ = change.config;
  node.Reload(config_);
  log->info("reloaded changed='{}'", fmt::join(change.applied, ","));
  if (change.kept.empty()) return;
  log->warn("reload: these keys require a restart keys='{}'",
            fmt::join(change.kept, ","));
}

}  // namespace msitd::server
