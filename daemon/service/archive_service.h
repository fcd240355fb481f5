// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/archive/archive_jobs.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/archive_service.grpc.pb.h"
#include "storage/archive/archive_source.h"

namespace msitd::service {

// Implements ArchiveService on the jobs of a daemon. All arguments must outlive
// it.
class ArchiveServiceImpl final : public BoundedService<v1::ArchiveService> {
 public:
  ArchiveServiceImpl(archive::ArchiveJobs& jobs, storage::ArchivePlaces& places,
                     CallPools pools, const Admission& admission)
      : BoundedService(admission), jobs_(jobs), places_(places), pools_(pools) {
    Bound("ArchiveRun", &ArchiveServiceImpl::ArchiveRun);
    Bound("RestoreRun", &ArchiveServiceImpl::RestoreRun);
    Bound("PruneArchive", &ArchiveServiceImpl::PruneArchive);
    Bound("GetArchiveJob", &ArchiveServiceImpl::GetArchiveJob);
    Bound("ListArchiveJobs", &ArchiveServiceImpl::ListArchiveJobs);
    Bound("ListArchivedRuns", &ArchiveServiceImpl::ListArchivedRuns);
  }

  grpc::ServerUnaryReactor* ArchiveRun(grpc::CallbackServerContext* context,
                                       const v1::ArchiveRunRequest* request,
                                       v1::ArchiveJob* response) override;
  grpc::ServerUnaryReactor* RestoreRun(grpc::CallbackServerContext* context,
                                       const v1::RestoreRunRequest* request,
                                       v1::ArchiveJob* response) override;
  grpc::ServerUnaryReactor* PruneArchive(grpc::CallbackServerContext* context,
                                         const v1::PruneArchiveRequest* request,
                                         v1::ArchiveJob* response) override;
  grpc::ServerUnaryReactor* GetArchiveJob(
      grpc::CallbackServerContext* context,
      const v1::GetArchiveJobRequest* request,
      v1::ArchiveJob* response) override;
  grpc::ServerUnaryReactor* ListArchiveJobs(
      grpc::CallbackServerContext* context,
      const v1::ListArchiveJobsRequest* request,
      v1::ListArchiveJobsResponse* response) override;
  grpc::ServerUnaryReactor* ListArchivedRuns(
      grpc::CallbackServerContext* context,
      const v1::ListArchivedRunsRequest* request,
      v1::ListArchivedRunsResponse* response) override;

 private:
  absl::Status ListRuns(const Call& call,
                        const v1::ListArchivedRunsRequest& request,
                        v1::ListArchivedRunsResponse& response);

  archive::ArchiveJobs& jobs_;
  storage::ArchivePlaces& places_;
  const CallPools pools_;
};

}  // namespace msitd::service
