// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/archive/archive_jobs.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "storage/face/run_reader.h"
#include "storage/face/runs.h"
#include "storage/run_ranks.h"

namespace msitd::service {

// Implements RunService on the runs of a store and the pipeline. All arguments
// must outlive it.
class RunServiceImpl final : public BoundedService<v1::RunService> {
 public:
  RunServiceImpl(storage::Runs& runs, storage::RunReaders& readers,
                 ingest::IngestPipeline& pipeline,
                 archive::ArchiveJobs& archives, TaskPool& pool,
                 const Admission& admission)
      : BoundedService(admission),
        runs_(runs),
        readers_(readers),
        pipeline_(pipeline),
        archives_(archives),
        pool_(pool) {
    Bound("GetRun", &RunServiceImpl::GetRun);
    Bound("ListRuns", &RunServiceImpl::ListRuns);
    Bound("CreateRun", &RunServiceImpl::CreateRun);
    Bound("SealRun", &RunServiceImpl::SealRun);
    Bound("SetRunRetention", &RunServiceImpl::SetRunRetention);
    Bound("DeleteRun", &RunServiceImpl::DeleteRun);
  }

  grpc::ServerUnaryReactor* GetRun(grpc::CallbackServerContext* context,
                                   const v1::GetRunRequest* request,
                                   v1::Run* response) override;
  grpc::ServerUnaryReactor* ListRuns(grpc::CallbackServerContext* context,
                                     const v1::ListRunsRequest* request,
                                     v1::ListRunsResponse* response) override;
  grpc::ServerUnaryReactor* CreateRun(grpc::CallbackServerContext* context,
                                      const v1::CreateRunRequest* request,
                                      v1::Run* response) override;
  grpc::ServerUnaryReactor* SealRun(grpc::CallbackServerContext* context,
                                    const v1::SealRunRequest* request,
                                    v1::Run* response) override;
  grpc::ServerUnaryReactor* SetRunRetention(
      grpc::CallbackServerContext* context,
      const v1::SetRunRetentionRequest* request, v1::Run* response) override;
  grpc::ServerUnaryReactor* DeleteRun(
      grpc::CallbackServerContext* context, const v1::DeleteRunRequest* request,
      google::protobuf::Empty* response) override;

 private:
  absl::Status Answer(absl::StatusOr<storage::RunInfo> run, v1::Run& response);
  void ToMessage(const storage::RunInfo& run, const storage::RunRanks& ranks,
                 v1::Run& out);
  absl::Status List(const v1::ListRunsRequest& request,
                    v1::ListRunsResponse& response);
  absl::Status Create(const access::Caller& caller,
                      const v1::CreateRunRequest& request, v1::Run& response);
  absl::Status SetRetention(const access::Caller& caller,
                            const v1::SetRunRetentionRequest& request,
                            v1::Run& response);

  storage::Runs& runs_;
  storage::RunReaders& readers_;
  ingest::IngestPipeline& pipeline_;
  archive::ArchiveJobs& archives_;
  TaskPool& pool_;
};

}  // namespace msitd::service
