// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "daemon/archive/archive_jobs.h"
#include "daemon/compare/job/bounded_comparisons.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "storage/face/upkeep.h"

namespace msitd::service {

// Implements NodeService. The parts of the daemon that it describes must
// outlive it.
class NodeServiceImpl final : public BoundedService<v1::NodeService> {
 public:
  // The functions may be called on any thread.
  struct Parts {
    std::string version;
    storage::Upkeep& store;
    ingest::IngestPipeline& pipeline;
    // Returns the number of comparisons that run or wait.
    std::function<int64_t()> active_comparisons;
    std::function<compare::BoundedComparisons::Stats()> stored_comparisons;
    // Return why no space can be freed, and why no bytes can be verified.
    std::function<std::string()> retention_error;
    std::function<std::string()> verify_error;
    std::function<archive::ArchiveCounts()> archives;
    // See NodeStatus.
    std::function<std::string()> shared_memory_pages;
    std::function<v1::Diagnostics()> diagnostics;
  };

  NodeServiceImpl(Parts parts, TaskPool& pool, const Admission& admission)
      : BoundedService(admission), parts_(std::move(parts)), pool_(pool) {
    Bound("GetCapabilities", &NodeServiceImpl::GetCapabilities);
    Bound("GetNodeStatus", &NodeServiceImpl::GetNodeStatus);
    Bound("ListStreams", &NodeServiceImpl::ListStreams);
    Bound("GetDiagnostics", &NodeServiceImpl::GetDiagnostics);
  }

  grpc::ServerUnaryReactor* GetCapabilities(
      grpc::CallbackServerContext* context,
      const v1::GetCapabilitiesRequest* request,
      v1::Capabilities* response) override;
  grpc::ServerUnaryReactor* GetNodeStatus(
      grpc::CallbackServerContext* context,
      const v1::GetNodeStatusRequest* request,
      v1::NodeStatus* response) override;

  grpc::ServerUnaryReactor* ListStreams(
      grpc::CallbackServerContext* context,
      const v1::ListStreamsRequest* request,
      v1::ListStreamsResponse* response) override;
  grpc::ServerUnaryReactor* GetDiagnostics(
      grpc::CallbackServerContext* context,
      const v1::GetDiagnosticsRequest* request,
      v1::Diagnostics* response) override;

 private:
  absl::Status Status(v1::NodeStatus& response);
  absl::Status List(const v1::ListStreamsRequest& request,
                    v1::ListStreamsResponse& response);

  const Parts parts_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  TaskPool& pool_;
};

}  // namespace msitd::service
