// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/daemon.h"

#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "daemon/access/peer.h"
#include "daemon/config/command_line.h"
#include "daemon/log/log.h"
#include "daemon/server/certificate_watch.h"
#include "daemon/server/file_budget.h"
#include "daemon/server/freed_memory.h"
#include "daemon/server/grpc_log.h"
#include "daemon/server/idle_end.h"
#include "daemon/server/passed_sockets.h"
#include "daemon/server/personal.h"
#include "daemon/server/reloader.h"
#include "daemon/server/signals.h"
#include "daemon/server/socket_file.h"
#include "daemon/server/systemd.h"
#include "protos/endpoint/endpoint_rule.h"
#include "protos/os/nice.h"
#include "protos/status/status.h"
#include "storage/rebuild/recovered_store.h"

namespace msitd::server {
namespace {

// Sockets and data are for the owner and the group, from their first moment.
constexpr mode_t kUmask = 0007;

storage::StoreOptions ToStoreOptions(const config::DaemonConfig& config) {
  storage::StoreOptions out;
  out.directory = config.data_dir;
  out.segment_bytes_max = static_cast<uint64_t>(config.segment_bytes);
  out.direct_io = config.direct_io;
  out.index_write_buffer_bytes =
      static_cast<uint64_t>(config.index_write_buffer_bytes);
  out.index_cache_bytes = static_cast<uint64_t>(config.index_cache_bytes);
  return out;
}

// A rebuilt run may lack what an archive of it already has.
config::DaemonConfig WithoutArchiving(config::DaemonConfig config) {
  if (config.archive_url.empty()) return config;
  config.archives.push_back(std::exchange(config.archive_url, ""));
  return config;
}

absl::StatusOr<std::unique_ptr<storage::Store>> OpenRecovered(
    const config::DaemonConfig& config, storage::Env& env) {
  const auto log = log::Get("server");
  NotifyLongStart();
  std::error_code error;
  const auto parent = std::filesystem::temp_directory_path(error);
  if (error) return ErrnoStatus(error.value(), "look for a place in TMPDIR");
  log->info("recover data_dir={} temporary_index_in={}", config.data_dir,
            parent.string());
  MSITD_ASSIGN_OR_RETURN(
      storage::RecoveredStore recovered,
      storage::OpenRecovered(ToStoreOptions(config), parent, env));
  const storage::RebuildReport& report = recovered.report;
  for (const std::string& damage : report.damage) {
    log->warn("index damage: {}", damage);
  }
  for (const std::string& note : report.notes) log->warn("{}", note);
  for (const std::string& run : report.recovered_runs) {
    log->warn("run known only from segments run={}", run);
  }
  if (report.corrupt_frame_count > 0) {
    log->warn("durable frames cannot be read places={}",
              report.corrupt_frame_count);
  }
  log->warn(
      "the store is open for reading only; to repair it, stop this daemon "
      "and run: msitd-inspect rebuild --data-dir {}",
      config.data_dir);
  return std::move(recovered.store);
}

std::string EndpointPath(const config::DaemonConfig& config) {
  return config.socket_dir + "/endpoint";
}

unsigned PermissionsOf(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

// A volume of another user, and a directory with files that are not of the
// store, keep their permissions. These may be too wide.
void WarnIfStoreIsOpenToOthers(const std::string& directory) {
  const unsigned mode = PermissionsOf(directory);
  if ((mode & 0077) == 0) return;
  const bool lets_replace = (mode & 0022) != 0 && (mode & S_ISVTX) == 0;
  const unsigned inner = PermissionsOf(directory + "/index") |
                         PermissionsOf(directory + "/segments");
  if (!lets_replace && (inner & 0077) == 0) return;
  log::Get("server")->warn(
      "other users can reach the files of the store, past the roles of the "
      "daemon; set the permissions of the directory to 0700 data_dir={} "
      "mode={:04o}",
      directory, mode);
}

// The store may take the permissions of the directory away from them.
void WarnIfSocketsLieInStore(const config::DaemonConfig& config) {
  std::error_code ignored;
  const auto sockets = std::filesystem::weakly_canonical(
      std::filesystem::absolute(config.socket_dir, ignored), ignored);
  const auto data = std::filesystem::weakly_canonical(
      std::filesystem::absolute(config.data_dir, ignored), ignored);
  const auto relative = sockets.lexically_relative(data);
  if (relative.empty() || *relative.begin() == "..") return;
  log::Get("server")->warn(
      "the sockets lie in the data directory, which other users must not be "
      "able to enter: choose another socket_dir socket_dir={} data_dir={}",
      config.socket_dir, config.data_dir);
}

absl::Status WriteEndpoints(const config::DaemonConfig& config,
                            const NodeServer& node) {
  std::string text;
  for (const std::string& endpoint : node.endpoints()) {
    log::Get("server")->info("listen endpoint={}", endpoint);
    text += endpoint + "\n";
  }
  return ReplaceFile(EndpointPath(config), text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(
    const config::DaemonConfig& given, storage::Env& env, bool recovers) {
  const config::DaemonConfig config =
      recovers ? WithoutArchiving(given) : given;
  if (config.socket_dir ==
      endpoint::PersonalSocketDir(endpoint::Surroundings::OfProcess())) {
    MSITD_RETURN_IF_ERROR(MakePersonalSocketDir(config.socket_dir));
  }
  auto out = std::unique_ptr<Daemon>(new Daemon(config));
  MSITD_ASSIGN_OR_RETURN(
      out->store_, recovers
                       ? OpenRecovered(config, env)
                       : storage::Store::Open(ToStoreOptions(config), env));
  const storage::StoreStats stats = out->store_->upkeep().Stats();
  log::Get("server")->info(
      "store open data_dir={} runs={} segments={} recovered_frames={} "
      "torn_frames={}",
      config.data_dir, stats.run_count, stats.segment_count,
      stats.recovered_frame_count, stats.torn_frame_count);
  WarnIfStoreIsOpenToOthers(config.data_dir);
  WarnIfSocketsLieInStore(config);
  MSITD_ASSIGN_OR_RETURN(out->node_, NodeServer::Start(config, *out->store_));
  MSITD_RETURN_IF_ERROR(WriteEndpoints(config, *out->node_));
  return out;
}

absl::Status Daemon::Stop() {
  ::unlink(EndpointPath(config_).c_str());
  MSITD_RETURN_IF_ERROR(node_->Stop(
      std::chrono::steady_clock::now() +
      std::chrono::milliseconds(node_->CurrentConfig().drain_timeout_ms)));
  return store_->Close();
}

void Daemon::GiveMemoryBack(bool drops_buffers) {
  if (drops_buffers) node_->DropKeptBuffers();
  ::malloc_trim(0);
}

void Daemon::Heartbeat() {
  (void)node_->pipeline().Stats();
  (void)store_->upkeep().Stats();
}

namespace {

// A unit that names other paths than the configuration would leave who connects
// there without an answer.
void RefuseForeignSockets(const config::DaemonConfig& config) {
  const std::string ours[] = {config.SocketPath(), config.IngestSocketPath()};
  for (const std::string& socket : CloseForeignSockets(ours)) {
    log::Get("server")->warn("passed socket is none of ours socket={}", socket);
  }
}

void CheckMemory(FreedMemory& memory, Daemon& daemon) {
  const auto action = memory.Check(FreedMemory::Look());
  if (action == FreedMemory::Action::kNone) return;
  daemon.GiveMemoryBack(action == FreedMemory::Action::kGiveBack);
  memory.Trimmed(FreedMemory::Look().resident_bytes);
}

void BeNice(int64_t nice) {
  if (const int error = RaiseNice(static_cast<int>(nice)); error != 0) {
    log::Get("server")->warn("nice refused nice={} error='{}'", nice,
                             Message(ErrnoStatus(error, "setpriority")));
  }
}

// Returns the earlier of two ends of certificates. 0 stands for none.
int64_t EarlierEnd(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

// Returns the signal that asks for the stop, or nothing if the daemon is idle.
std::optional<int> WaitForStop(const config::DaemonConfig& config,
                               StopSignals& signals, Daemon& daemon,
                               IdleEnd& idle, Reloader& reloader) {
  using Clock = std::chrono::steady_clock;
  CertificateWatch certificate(daemon.node().certificate_in_use(),
                               config.tls_cert);
  CertificateWatch of_metrics(daemon.node().metrics_certificate_in_use(),
                              config.metrics_tls_cert);
  FreedMemory memory;
  const auto watchdog = WatchdogInterval();
  auto next_beat = Clock::now();
  while (true) {
    for (CertificateWatch* const watch : {&certificate, &of_metrics}) {
      const std::string warning =
          watch->Check(std::chrono::system_clock::now());
      if (!warning.empty()) log::Get("server")->warn("{}", warning);
    }
    daemon.node().RefreshTls();
    daemon.node().SetCertificateEnd(
        EarlierEnd(certificate.last_s(), of_metrics.last_s()));
    if (const auto signal = signals.Wait(FreedMemory::kInterval)) {
      if (*signal != SIGHUP) return *signal;
      NotifyReloading();
      reloader.Reload(daemon.node());
      NotifyReady();
    }
    if (idle.Check(Clock::now(),
                   [&daemon] { return daemon.node().CurrentActivity(); })) {
      return std::nullopt;
    }
    CheckMemory(memory, daemon);
    if (!watchdog.has_value() || Clock::now() < next_beat) continue;
    next_beat = Clock::now() + *watchdog;
    daemon.Heartbeat();
    NotifyWatchdog();
  }
}

}  // namespace

int RunDaemon(const config::DaemonConfig& config, bool recovers,
              ReadConfig reread, StartCallback started) {
  const auto report = [&started](const absl::Status& status) {
    if (started) started(status);
  };
  log::SetUp(config.log_level, config.log_format == "json"
                                   ? log::Format::kJson
                                   : log::Format::kText);
  ForwardGrpcLog();
  const auto log = log::Get("server");
  RefuseForeignSockets(config);
  ::umask(kUmask);
  BeNice(config.nice);
  if (!access::IdentifiesOwnUser()) {
    log->warn(
        "every caller with the number of the daemon's user is refused: it is "
        "the number that the kernel reports for users outside the user "
        "namespace; run the daemon and its callers as another user, or on "
        "Linux 6.5 or later uid={}",
        ::geteuid());
  }
  absl::StatusOr<StopSignals> signals = StopSignals::Install();
  if (!signals.ok()) {
    log->error("start failed error='{}'", Message(signals.status()));
    report(signals.status());
    return EXIT_FAILURE;
  }
  log->info("start version={} files_max={}", config::Version(),
            RaiseFileLimit());
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(
      config, config.durable ? storage::Env::Posix() : storage::Env::Fleeting(),
      recovers);
  if (!daemon.ok()) {
    log->error("start failed error='{}'", Message(daemon.status()));
    report(daemon.status());
    return EXIT_FAILURE;
  }
  NotifyReady();
  log->info("ready");
  report(absl::OkStatus());

  IdleEnd idle(std::chrono::seconds(config.idle_exit_s),
               (*daemon)->node().OwnSockets(config));
  Reloader reloader(config, std::move(reread));
  const std::optional<int> signal =
      WaitForStop(config, *signals, **daemon, idle, reloader);
  NotifyStopping();
  if (signal.has_value()) {
    log->info("stop signal={}", *signal);
  } else {
    log->info("stop idle_exit_s={}", config.idle_exit_s);
  }
  signals->LetNextKill();
  if (const absl::Status status = (*daemon)->Stop(); !status.ok()) {
    log->error("stop failed error='{}'", Message(status));
    log->flush();
    // Threads may be stuck in the store; destructors would wait for them.
    ::_exit(EXIT_FAILURE);
  }
  log->info("stopped");
  return EXIT_SUCCESS;
}

}  // namespace msitd::server
