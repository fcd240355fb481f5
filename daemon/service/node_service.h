// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "storage/face/upkeep.h"

namespace msitd::service {

// NodeService over the parts of the daemon that it describes. They outlive it.
class NodeServiceImpl final : public BoundedService<v1::NodeService> {
 public:
  // `active_comparisons` returns the number of comparisons that run or wait;
  // `retention_error` says why no room can be made; `shared_memory_pages` see
  // NodeStatus. All may be called from any thread.
  NodeServiceImpl(std::string version, storage::Upkeep& store,
                  ingest::IngestPipeline& pipeline,
                  std::function<int64_t()> active_comparisons,
                  std::function<std::string()> retention_error,
                  std::function<std::string()> shared_memory_pages,
                  TaskPool& pool, FirstReads& reads)
      : BoundedService(reads),
        version_(std::move(version)),
        store_(store),
        pipeline_(pipeline),
        active_comparisons_(std::move(active_comparisons)),
        retention_error_(std::move(retention_error)),
        shared_memory_pages_(std::move(shared_memory_pages)),
        pool_(pool) {
    Bound("GetCapabilities", &NodeServiceImpl::GetCapabilities);
    Bound("GetNodeStatus", &NodeServiceImpl::GetNodeStatus);
  }

  grpc::ServerUnaryReactor* GetCapabilities(
      grpc::CallbackServerContext* context,
      const v1::GetCapabilitiesRequest* request,
      v1::Capabilities* response) override;
  grpc::ServerUnaryReactor* GetNodeStatus(
      grpc::CallbackServerContext* context,
      const v1::GetNodeStatusRequest* request,
      v1::NodeStatus* response) override;

 private:
  absl::Status Status(v1::NodeStatus& response);

  const std::string version_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  storage::Upkeep& store_;
  ingest::IngestPipeline& pipeline_;
  const std::function<int64_t()> active_comparisons_;
  const std::function<std::string()> retention_error_;
  const std::function<std::string()> shared_memory_pages_;
  TaskPool& pool_;
};

}  // namespace msitd::service
