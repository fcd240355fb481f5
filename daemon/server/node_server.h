// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/gatekeeper.h"
#include "daemon/access/live_policy.h"
#include "daemon/archive/archive_jobs.h"
#include "daemon/compare/job/bounded_comparisons.h"
#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/config/daemon_config.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/metrics/metrics_server.h"
#include "daemon/remote/ingest_service.h"
#include "daemon/server/grpc_server.h"
#include "daemon/server/idle_end.h"
#include "daemon/server/node_metrics.h"
#include "daemon/server/tls_files.h"
#include "daemon/service/archive_service.h"
#include "daemon/service/attachment_service.h"
#include "daemon/service/call/first_reads.h"
#include "daemon/service/call/task_pool.h"
#include "daemon/service/capture_service.h"
#include "daemon/service/comparison_service.h"
#include "daemon/service/node_service.h"
#include "daemon/service/run_reader_service.h"
#include "daemon/service/run_service.h"
#include "daemon/service/tensor_service.h"
#include "daemon/shm/ingest_server.h"
#include "daemon/upkeep/retention_loop.h"
#include "daemon/upkeep/step_loop.h"
#include "daemon/upkeep/verify_loop.h"
#include "protos/status/mutex.h"
#include "storage/store.h"

namespace msitd::server {

// All parts of the daemon above the store: pools, pipeline, comparisons,
// services, the ingest server and the gRPC server. Thread-compatible; used on
// the main thread.
class NodeServer {
 public:
  // Creates the parts from the store upwards and starts serving immediately.
  // `store` must outlive the server.
  //
  // Errors: those of GrpcServer::Start, IngestServer::Start and the store.
  static absl::StatusOr<std::unique_ptr<NodeServer>> Start(
      const config::DaemonConfig& config, storage::Store& store);

  // Calls Stop without a deadline if it was not called.
  ~NodeServer();
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;

  // Stops the parts from the top down: refuses new streams and calls, commits
  // the chunks in flight of the open streams, ends calls, and joins threads.
  // Calls that are still in progress at `deadline` are cancelled.
  //
  // Errors: DEADLINE_EXCEEDED if the chunks could not be committed in time. In
  // that case threads are blocked in the store, and neither the store nor this
  // object can be destroyed.
  absl::Status Stop(std::chrono::steady_clock::time_point deadline);

  // Applies a configuration that differs from the one in force only in keys
  // that a running daemon can take over (reloader.h). Calls that begin later,
  // and the next chunk of each producer, are subject to the new roles.
  //
  // Errors: those of AccessPolicy::Create and AuditLog::Open, with the key.
  // Nothing was changed then.
  absl::Status Reload(const config::DaemonConfig& config);

  // Returns the configuration in force. Thread-safe.
  config::DaemonConfig CurrentConfig();

  // Sets the end of the validity of the certificate, as Unix time, for the
  // metrics; 0 for none.
  void SetCertificateEnd(int64_t last_s) { certificate_last_s_ = last_s; }

  // Checks whether the TLS files of all listeners have changed, at most once
  // per interval.
  void RefreshTls();
  // Checks them now. Returns the problems of files that are not used, or
  // nothing.
  std::string ReloadTls();
  // Return a path of the certificate used for new connections; empty without
  // TLS.
  std::string certificate_in_use() const { return grpc_->certificate_in_use(); }
  std::string metrics_certificate_in_use() const {
    return metrics_tls_ == nullptr ? "" : metrics_tls_->own_copy();
  }

  // Frees the buffers that are kept for later chunks.
  void DropKeptBuffers() { buffers_.DropKept(); }

  const std::vector<std::string>& endpoints() const {
    return grpc_->endpoints();
  }
  ingest::IngestPipeline& pipeline() { return pipeline_; }

  // Returns what keeps an idle daemon from ending.
  Activity CurrentActivity();

  // Returns the paths of the Unix sockets of clients that this process created.
  std::vector<std::string> OwnSockets(const config::DaemonConfig& config) const;

 private:
  NodeServer(const config::DaemonConfig& config, storage::Store& store,
             std::unique_ptr<storage::ArchivePlaces> archive_places,
             std::unique_ptr<storage::RunReaders> run_sources,
             std::unique_ptr<compare::BoundedComparisons> stored_comparisons,
             std::unique_ptr<compare::ComparisonJobs> comparisons,
             access::AccessPolicy policy,
             std::unique_ptr<access::AuditLog> audit);

  ingest::IngestOptions ToIngestOptions(const config::DaemonConfig& config);
  // The streaming state of the runs of this daemon. Valid while this object is.
  compare::ActivitySource activity() {
    return [this](std::string_view run) { return pipeline_.ActivityOf(run); };
  }
  service::Admission admission() {
    return {gatekeeper_, first_reads_, daemon_id_};
  }
  // Return the owner of a run or a comparison by its name.
  absl::StatusOr<std::string> OwnerOfRun(storage::Store& store,
                                         std::string_view name);
  absl::StatusOr<std::string> OwnerOfComparison(std::string_view name);

  service::CallPools pools() {
    return {control_tasks_, query_tasks_, reduction_tasks_};
  }

  absl::Status StartIngestServer(const config::DaemonConfig& config);
  absl::Status StartMetricsServer(const config::DaemonConfig& config);
  // See NodeStatus.
  std::string SharedMemoryPages() const;

  Mutex config_mu_;
  config::DaemonConfig config_ ABSL_GUARDED_BY(config_mu_);
  std::atomic<int64_t> certificate_last_s_ = 0;

  // Stream openings and operator commands have pools of their own, so that they
  // do not queue after long queries.
  access::LivePolicy policy_;
  const std::string daemon_id_ = service::MakeDaemonId();
  access::Gatekeeper gatekeeper_;
  service::TaskPool ingest_tasks_;
  service::TaskPool control_tasks_;
  service::TaskPool query_tasks_;
  service::TaskPool reduction_tasks_;
  ingest::BufferPool buffers_;
  ingest::IngestPipeline pipeline_;
  upkeep::RetentionLoop retention_;
  upkeep::VerifyLoop verify_;
  std::unique_ptr<storage::ArchivePlaces> archive_places_;
  std::unique_ptr<compare::BoundedComparisons> stored_comparisons_;
  upkeep::StepLoop comparison_age_;
  archive::ArchiveJobs archive_jobs_;
  // The runs of the store and of the sources that the configuration allows.
  std::unique_ptr<storage::RunReaders> run_sources_;
  std::unique_ptr<compare::ComparisonJobs> comparisons_;
  service::FirstReads first_reads_;
  service::ArchiveServiceImpl archive_service_;
  service::AttachmentServiceImpl attachment_service_;
  service::ComparisonServiceImpl comparison_service_;
  service::CaptureServiceImpl capture_service_;
  service::IngestServiceImpl ingest_service_;
  service::RunReaderServiceImpl run_reader_service_;
  service::RunServiceImpl run_service_;
  service::TensorServiceImpl tensor_service_;
  NodeMetrics metrics_;
  service::NodeServiceImpl node_service_;
  // Null if memory is not shared.
  std::unique_ptr<shm::IngestServer> ingest_server_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<TlsFiles> metrics_tls_;  // Null without TLS.
  // Null if the metrics server is disabled.
  std::unique_ptr<metrics::MetricsServer> metrics_server_;
  std::string metrics_path_;  // Its Unix socket, if any.
};

}  // namespace msitd::server
