// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/node_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/access/method_rules.h"
#include "daemon/archive/run_restorer.h"
#include "daemon/config/command_line.h"
#include "daemon/log/log.h"
#include "daemon/peers/remote_source.h"
#include "daemon/server/diagnostics.h"
#include "daemon/server/file_budget.h"
#include "daemon/server/metrics_listener.h"
#include "daemon/server/passed_sockets.h"
#include "daemon/server/socket_file.h"
#include "daemon/service/comparison_convert.h"
#include "protos/status/status.h"
#include "storage/archive/s3_credentials.h"
#include "storage/run_sources.h"

namespace msitd::server {
namespace {

constexpr int kIngestTaskThreads = 2;

// Some control calls wait for a commit, others for a comparison to stop.
constexpr int kControlThreads = 4;
// Shares of TaskPool::kAnswerBytesMax. Queries have the rest.
constexpr size_t kControlAnswerBytesMax = size_t{24} << 20;
constexpr size_t kReductionAnswerBytesMax = size_t{24} << 20;

// Time that calls have after the chunks are durable, however late that is. Also
// covers work outside these pools, such as health streams and silent
// connections.
constexpr std::chrono::milliseconds kCallGraceMin{200};
// Long enough for any unary call. A stream that continues is cancelled.
constexpr std::chrono::milliseconds kCallGraceMax{2000};

// Fewer threads than for queries, because each long reduction uses a second
// thread.
int ReductionThreads(const config::DaemonConfig& config) {
  return static_cast<int>((config.query_threads + 1) / 2);
}

peers::PeerOptions ToPeerOptions(const config::DaemonConfig& config) {
  peers::PeerOptions out;
  out.ca_file = config.peer_ca_file;
  out.certificate_file = config.peer_certificate_file;
  out.key_file = config.peer_key_file;
  out.timeout = std::chrono::milliseconds(config.peer_timeout_ms);
  return out;
}

access::AccessOptions ToAccessOptions(const config::DaemonConfig& config) {
  // The configuration has been validated.
  const auto role = [](const std::string& name) {
    return access::ParseRole(name).value_or(access::Role::kNone);
  };
  access::AccessOptions out;
  out.unix_role = role(config.unix_role);
  out.loopback_role = role(config.loopback_role);
  out.tls_role = role(config.tls_role);
  out.admin_groups = config.admin_groups;
  out.writer_groups = config.writer_groups;
  out.reader_groups = config.reader_groups;
  out.admin_certificates = config.admin_certificates;
  out.writer_certificates = config.writer_certificates;
  out.reader_certificates = config.reader_certificates;
  return out;
}

upkeep::RetentionLoop::Options ToRetentionOptions(
    const config::DaemonConfig& config) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  upkeep::RetentionLoop::Options out;
  storage::RetentionPolicy& policy = out.policy;
  policy.disk_bytes_max = static_cast<uint64_t>(config.retain_disk_bytes);
  policy.disk_free_min = static_cast<uint64_t>(config.retain_disk_free_bytes);
  policy.disk_margin_percent =
      static_cast<uint64_t>(config.retain_disk_margin_percent);
  policy.run.bytes_max = static_cast<uint64_t>(config.retain_run_bytes);
  policy.run.age_max_ns = config.retain_age_s * kNsPerSecond;
  policy.run.token_count = config.retain_tokens;
  out.shares_equal_bytes = config.share_equal_bytes;
  return out;
}

// Reads the token for each request, so that a new one needs no restart. A file
// that cannot be read is an empty token, which matches no request.
std::optional<std::string> TokenIn(const std::string& path) {
  if (path.empty()) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string token;
  file >> token;
  return token;
}

// Returns null if there is no audit log.
absl::StatusOr<std::unique_ptr<access::AuditLog>> OpenAudit(
    const std::string& path) {
  if (path.empty()) return nullptr;
  auto out = access::AuditLog::Open(path);
  if (!out.ok()) return Annotate(out.status(), "audit_file");
  return out;
}

upkeep::VerifyLoop::Options ToVerifyOptions(
    const config::DaemonConfig& config) {
  upkeep::VerifyLoop::Options out;
  out.bytes_per_s = static_cast<uint64_t>(config.verify_bytes_per_s);
  out.interval = std::chrono::seconds(config.verify_interval_s);
  return out;
}

// How often to check for expired comparisons.
constexpr std::chrono::seconds kComparisonAgeInterval{10};

// Rows are limited to this distance from the point at which tensors would have
// to be removed.
constexpr uint64_t kRowRoomBytes = uint64_t{64} << 20;

compare::BoundedComparisons::Limits ToComparisonLimits(
    const config::DaemonConfig& config) {
  compare::BoundedComparisons::Limits out;
  out.bytes_max = static_cast<uint64_t>(config.retain_comparison_bytes);
  out.age_max = std::chrono::seconds(config.retain_comparison_age_s);
  if (config.retain_disk_free_bytes == 0) return out;
  const auto free_min =
      static_cast<uint64_t>(config.retain_disk_free_bytes) + kRowRoomBytes;
  out.check_room = [directory = config.data_dir, free_min] {
    std::error_code error;
    const auto space = std::filesystem::space(directory, error);
    if (error || space.available >= free_min) return absl::OkStatus();
    return WithReason(
        MakeStatus(absl::StatusCode::kResourceExhausted,
                   "the disk has {} bytes left, too few for rows of "
                   "comparisons: tensors would have to make room "
                   "(retain_disk_free_bytes)",
                   space.available),
        ErrorReason::kDiskFull);
  };
  return out;
}

absl::StatusOr<std::unique_ptr<storage::ArchivePlaces>> OpenArchives(
    const config::DaemonConfig& config) {
  storage::ArchivePlaces::Options options;
  options.urls = config.archives;
  options.s3.endpoint = config.archive_s3_endpoint;
  options.s3.region = config.archive_s3_region;
  options.s3.ca_file = config.archive_s3_ca_file;
  if (!config.archive_s3_endpoint.empty()) {
    MSITD_ASSIGN_OR_RETURN(
        options.s3.credentials,
        storage::ReadS3Credentials(config.archive_credentials_file));
  }
  MSITD_ASSIGN_OR_RETURN(auto places,
                         storage::ArchivePlaces::Create(std::move(options)));
  if (!config.archive_url.empty()) {
    // A directory that does not exist yet must not prevent the daemon from
    // starting.
    const absl::Status status = places->Open(config.archive_url).status();
    if (absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status)) {
      return Annotate(status, "archive_url");
    }
  }
  return places;
}

std::vector<std::unique_ptr<storage::RunSource>> MakeSources(
    const config::DaemonConfig& config, storage::ArchivePlaces& archives) {
  std::vector<std::unique_ptr<storage::RunSource>> out;
  out.push_back(std::make_unique<peers::RemoteSource>(config.peers,
                                                      ToPeerOptions(config)));
  out.push_back(std::make_unique<storage::ArchiveSource>(archives));
  return out;
}

}  // namespace

ingest::IngestOptions NodeServer::ToIngestOptions(
    const config::DaemonConfig& config) {
  ingest::IngestOptions out;
  out.digest_threads = static_cast<int>(config.digest_threads);
  out.nice = static_cast<int>(config.ingest_nice);
  out.streams_max = static_cast<size_t>(config.max_streams);
  out.stream_window_bytes = static_cast<uint64_t>(config.stream_window_bytes);
  out.commit_interval = std::chrono::milliseconds(config.commit_interval_ms);
  out.note_open = [this](const access::Caller& caller, std::string_view run,
                         const absl::Status& status) {
    gatekeeper_.Note(caller, "", access::RuleOf("IngestService", "WriteChunks"),
                     run, status);
  };
  return out;
}

absl::StatusOr<std::string> NodeServer::OwnerOfRun(storage::Store& store,
                                                   std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const storage::RunInfo run, store.runs().GetRun(name));
  return run.spec.owner;
}

absl::StatusOr<std::string> NodeServer::OwnerOfComparison(
    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t id, service::ToComparisonId(name));
  MSITD_ASSIGN_OR_RETURN(const compare::ComparisonView found,
                         comparisons_->Get(id));
  return found.comparison.owner();
}

NodeServer::NodeServer(
    const config::DaemonConfig& config, storage::Store& store,
    std::unique_ptr<storage::ArchivePlaces> archive_places,
    std::unique_ptr<storage::RunReaders> run_sources,
    std::unique_ptr<compare::BoundedComparisons> stored_comparisons,
    std::unique_ptr<compare::ComparisonJobs> comparisons,
    access::AccessPolicy policy, std::unique_ptr<access::AuditLog> audit)
    : config_(config),
      policy_(std::move(policy)),
      gatekeeper_(
          {[this, &store](std::string_view name) {
             return OwnerOfRun(store, name);
           },
           [this](std::string_view name) { return OwnerOfComparison(name); },
           config.caller_calls_per_s, std::move(audit)}),
      // Each stream has at most one opening and one copy in the queue.
      ingest_tasks_("remote-ingest", kIngestTaskThreads,
                    2 * static_cast<size_t>(config.max_streams)),
      control_tasks_("control", kControlThreads,
                     static_cast<size_t>(config.query_queue_max),
                     kControlAnswerBytesMax),
      query_tasks_("query", static_cast<int>(config.query_threads),
                   static_cast<size_t>(config.query_queue_max),
                   service::TaskPool::kAnswerBytesMax - kControlAnswerBytesMax -
                       kReductionAnswerBytesMax),
      reduction_tasks_("reduction", ReductionThreads(config),
                       static_cast<size_t>(config.query_queue_max),
                       kReductionAnswerBytesMax),
      buffers_(static_cast<uint64_t>(config.ingest_buffer_bytes)),
      pipeline_(store.runs(), store.log(), ToIngestOptions(config)),
      retention_(store.upkeep(), ToRetentionOptions(config)),
      verify_(store.upkeep(), ToVerifyOptions(config)),
      archive_places_(std::move(archive_places)),
      stored_comparisons_(std::move(stored_comparisons)),
      archive_jobs_({store.runs(), store.readers(), store.attachments(),
                     *stored_comparisons_, *archive_places_, pipeline_},
                    {.archive_url = config.archive_url}),
      run_sources_(std::move(run_sources)),
      comparisons_(std::move(comparisons)),
      archive_service_(archive_jobs_, *archive_places_, pools(), admission()),
      attachment_service_(store.attachments(), pipeline_, pools(), admission()),
      comparison_service_(*comparisons_, pools(), admission()),
      capture_service_(store.readers(), pipeline_, pools(), admission()),
      ingest_service_(pipeline_, buffers_, ingest_tasks_, admission()),
      run_reader_service_(store.readers(), pools(), admission()),
      run_service_(store.runs(), store.readers(), pipeline_, archive_jobs_,
                   control_tasks_, admission()),
      tensor_service_(*run_sources_, activity(), pools(), admission()),
      metrics_({store.upkeep(), pipeline_, buffers_, pools(),
                config.max_streams,
                [this] { return comparisons_->live_count(); },
                [this] { return stored_comparisons_->Read(); },
                [this] { return retention_.error(); },
                [this] { return verify_.error(); },
                [this] { return archive_jobs_.Counts(); },
                [this] { return CurrentConfig().retain_disk_free_bytes; },
                [this] { return certificate_last_s_.load(); }}),
      node_service_(
          {std::string(config::Version()), store.upkeep(), pipeline_,
           [this] { return comparisons_->live_count(); },
           [this] { return stored_comparisons_->Read(); },
           [this] { return retention_.error(); },
           [this] { return verify_.error(); },
           [this] { return archive_jobs_.Counts(); },
           [this] { return SharedMemoryPages(); },
           [this] { return GatherDiagnostics(CurrentConfig(), metrics_); }},
          control_tasks_, admission()) {
  comparisons_->WatchStreams(activity());
  comparison_age_.Start("comparison-age", [this] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const absl::Status status = stored_comparisons_->RemoveOld(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    if (!status.ok()) {
      log::Get("server")->warn("old comparisons stay for now: {}",
                               Message(status));
    }
    return kComparisonAgeInterval;
  });
}

absl::StatusOr<std::unique_ptr<NodeServer>> NodeServer::Start(
    const config::DaemonConfig& config, storage::Store& store) {
  compare::ComparisonJobs::Options options;
  options.active_max = static_cast<int>(config.comparison_threads);
  MSITD_ASSIGN_OR_RETURN(auto archive_places, OpenArchives(config));
  auto run_sources = std::make_unique<storage::SourcedRunReaders>(
      store.readers(), MakeSources(config, *archive_places));
  MSITD_ASSIGN_OR_RETURN(auto stored_comparisons,
                         compare::BoundedComparisons::Create(
                             store.comparisons(), ToComparisonLimits(config)));
  MSITD_ASSIGN_OR_RETURN(
      std::unique_ptr<compare::ComparisonJobs> comparisons,
      compare::ComparisonJobs::Create(*run_sources, *stored_comparisons,
                                      store.attachments(), options));
  MSITD_ASSIGN_OR_RETURN(access::AccessPolicy policy,
                         access::AccessPolicy::Create(ToAccessOptions(config)));
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<access::AuditLog> audit,
                         OpenAudit(config.audit_file));
  auto out = std::unique_ptr<NodeServer>(new NodeServer(
      config, store, std::move(archive_places), std::move(run_sources),
      std::move(stored_comparisons), std::move(comparisons), std::move(policy),
      std::move(audit)));
  archive::RemoveBrokenRestores(store.runs(), out->pipeline_);
  MSITD_RETURN_IF_ERROR(out->StartIngestServer(config));
  const NamedService services[] = {
      {v1::ArchiveService::service_full_name(), &out->archive_service_},
      {v1::AttachmentService::service_full_name(), &out->attachment_service_},
      {v1::CaptureService::service_full_name(), &out->capture_service_},
      {v1::ComparisonService::service_full_name(), &out->comparison_service_},
      {v1::IngestService::service_full_name(), &out->ingest_service_},
      {v1::NodeService::service_full_name(), &out->node_service_},
      {v1::RunReaderService::service_full_name(), &out->run_reader_service_},
      {v1::RunService::service_full_name(), &out->run_service_},
      {v1::TensorService::service_full_name(), &out->tensor_service_}};
  MSITD_ASSIGN_OR_RETURN(out->grpc_,
                         GrpcServer::Start(config, out->policy_, services));
  MSITD_RETURN_IF_ERROR(out->StartMetricsServer(config));
  return out;
}

absl::Status NodeServer::StartIngestServer(const config::DaemonConfig& config) {
  // Done even if memory is not shared, because a socket left by an earlier
  // daemon must not suggest that it is.
  const std::string path = config.IngestSocketPath();
  UniqueFd passed = TakePassedSocket(path, SOCK_SEQPACKET);
  if (!passed.valid()) {
    MSITD_RETURN_IF_ERROR(PrepareSocketFile(path, SOCK_SEQPACKET));
  } else if (!config.shared_memory) {
    // Clients would wait for as long as the service manager listens.
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "shared_memory is false, but the service manager listens "
                      "on {}: take it out of msitd.socket",
                      path);
  }
  if (!config.shared_memory) return absl::OkStatus();
  shm::IngestServerOptions options;
  options.policy = &policy_;
  options.socket_path = path;
  options.arena_bytes_max = static_cast<uint64_t>(config.ring_bytes_max);
  const auto streams_max = static_cast<size_t>(config.max_streams);
  options.sessions_max = FileBudget::Of(FileLimit(), streams_max).sessions_max;
  if (options.sessions_max < streams_max) {
    log::Get("server")->warn(
        "descriptors are few limit={} max_streams={} sessions_max={}",
        FileLimit(), streams_max, options.sessions_max);
  }
  MSITD_ASSIGN_OR_RETURN(ingest_server_,
                         shm::IngestServer::Start(
                             options, pipeline_,
                             [this](absl::AnyInvocable<void()> task) {
                               return ingest_tasks_.Submit(std::move(task));
                             },
                             std::move(passed)));
  return absl::OkStatus();
}

absl::Status NodeServer::StartMetricsServer(
    const config::DaemonConfig& config) {
  if (config.metrics_listen.empty()) return absl::OkStatus();
  metrics::MetricsServer::Options options;
  options.token = [this] {
    return TokenIn(CurrentConfig().metrics_token_file);
  };
  if (!config.metrics_tls_cert.empty()) {
    MSITD_ASSIGN_OR_RETURN(
        metrics_tls_,
        TlsFiles::Open({config.metrics_tls_cert, config.metrics_tls_key,
                        config.metrics_tls_client_ca, "metrics_tls_"}));
    options.tls = metrics_tls_->context();
  }
  MSITD_ASSIGN_OR_RETURN(
      MetricsListener listener,
      ListenForMetrics(config.metrics_listen, metrics_tls_ != nullptr));
  metrics_path_ = listener.path;
  log::Get("server")->info("metrics endpoint={}", listener.endpoint);
  MSITD_ASSIGN_OR_RETURN(
      metrics_server_,
      metrics::MetricsServer::Start(
          std::move(listener.socket), [this] { return metrics_.Text(); },
          std::move(options)));
  return absl::OkStatus();
}

void NodeServer::RefreshTls() {
  grpc_->RefreshTls();
  if (metrics_tls_ != nullptr &&
      metrics_tls_->Refresh(std::chrono::steady_clock::now())) {
    metrics_server_->SetTls(metrics_tls_->context());
  }
}

std::string NodeServer::ReloadTls() {
  std::string out = grpc_->ReloadTls();
  if (metrics_tls_ == nullptr) return out;
  const std::string problem =
      metrics_tls_->Reload(std::chrono::steady_clock::now());
  metrics_server_->SetTls(metrics_tls_->context());
  if (problem.empty() || out.empty()) return out + problem;
  return out + "; " + problem;
}

absl::Status NodeServer::Reload(const config::DaemonConfig& config) {
  MSITD_ASSIGN_OR_RETURN(access::AccessPolicy policy,
                         access::AccessPolicy::Create(ToAccessOptions(config)));
  if (config.audit_file != CurrentConfig().audit_file) {
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<access::AuditLog> audit,
                           OpenAudit(config.audit_file));
    gatekeeper_.SetAudit(std::move(audit));
  }
  // Nothing fails from here on.
  policy_.Set(std::move(policy));
  grpc_->ApplyPolicy();
  if (ingest_server_ != nullptr) ingest_server_->ApplyPolicy();
  gatekeeper_.SetCallsPerSecond(config.caller_calls_per_s);
  log::SetLevel(config.log_level);
  retention_.SetOptions(ToRetentionOptions(config));
  verify_.SetOptions(ToVerifyOptions(config));
  stored_comparisons_->SetLimits(ToComparisonLimits(config));
  MutexLock lock(config_mu_);
  config_ = config;
  return absl::OkStatus();
}

config::DaemonConfig NodeServer::CurrentConfig() {
  MutexLock lock(config_mu_);
  return config_;
}

std::string NodeServer::SharedMemoryPages() const {
  return ingest_server_ == nullptr ? "" : ingest_server_->MemoryPages();
}

Activity NodeServer::CurrentActivity() {
  const archive::ArchiveCounts archives = archive_jobs_.Counts();
  Activity out;
  out.is_busy =
      pipeline_.Stats().open_stream_count > 0 ||
      comparisons_->live_count() > 0 || archives.pending_count > 0 ||
      archives.running_count > 0 || grpc_->connection_count() > 0 ||
      (ingest_server_ != nullptr && ingest_server_->session_count() > 0);
  out.connection_count = grpc_->accepted_count();
  return out;
}

std::vector<std::string> NodeServer::OwnSockets(
    const config::DaemonConfig& config) const {
  std::vector<std::string> out;
  if (grpc_->owns_socket()) out.push_back(config.SocketPath());
  if (ingest_server_ != nullptr && ingest_server_->owns_socket()) {
    out.push_back(config.IngestSocketPath());
  }
  return out;
}

NodeServer::~NodeServer() {
  (void)Stop(std::chrono::steady_clock::time_point::max());
}

absl::Status NodeServer::Stop(std::chrono::steady_clock::time_point deadline) {
  if (grpc_ != nullptr) grpc_->SetNotServing();
  MSITD_RETURN_IF_ERROR(pipeline_.Drain(deadline));
  if (ingest_server_ != nullptr) ingest_server_->Stop();
  archive_jobs_.Stop();
  retention_.Stop();
  verify_.Stop();
  comparison_age_.Stop();
  comparisons_->Stop();
  if (grpc_ != nullptr) {
    // gRPC would wait for its whole grace period for a call that never ends.
    const auto drained =
        std::min(deadline, std::chrono::steady_clock::now() + kCallGraceMax) -
        kCallGraceMin;
    ingest_tasks_.Drain(drained);
    control_tasks_.Drain(drained);
    query_tasks_.Drain(drained);
    reduction_tasks_.Drain(drained);
    grpc_->Shutdown(std::chrono::system_clock::now() + kCallGraceMin);
  }
  // Stopped late, so that the shutdown can be monitored.
  if (metrics_server_ != nullptr) metrics_server_->Stop();
  if (!metrics_path_.empty()) ::unlink(metrics_path_.c_str());
  metrics_path_.clear();
  control_tasks_.Stop();
  query_tasks_.Stop();
  reduction_tasks_.Stop();
  ingest_tasks_.Stop();
  return absl::OkStatus();
}

}  // namespace msitd::server
