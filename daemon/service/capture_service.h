// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/capture_service.grpc.pb.h"
#include "storage/face/run_reader.h"

namespace msitd::service {

// Implements CaptureService on the runs of a store and the pipeline. All
// arguments must outlive it.
class CaptureServiceImpl final : public BoundedService<v1::CaptureService> {
 public:
  CaptureServiceImpl(storage::RunReaders& readers,
                     ingest::IngestPipeline& pipeline, CallPools pools,
                     const Admission& admission)
      : BoundedService(admission),
        readers_(readers),
        pipeline_(pipeline),
        pools_(pools) {
    Bound("GetCapturePolicy", &CaptureServiceImpl::GetCapturePolicy);
    Bound("SetCapturePolicy", &CaptureServiceImpl::SetCapturePolicy);
    Bound("GetCaptureCoverage", &CaptureServiceImpl::GetCaptureCoverage);
  }

  grpc::ServerUnaryReactor* GetCapturePolicy(
      grpc::CallbackServerContext* context,
      const v1::GetCapturePolicyRequest* request,
      v1::CapturePolicy* response) override;
  grpc::ServerUnaryReactor* SetCapturePolicy(
      grpc::CallbackServerContext* context,
      const v1::SetCapturePolicyRequest* request,
      v1::CapturePolicy* response) override;
  grpc::ServerUnaryReactor* GetCaptureCoverage(
      grpc::CallbackServerContext* context,
      const v1::GetCaptureCoverageRequest* request,
      v1::CaptureCoverage* response) override;

 private:
  absl::Status Get(const v1::GetCapturePolicyRequest& request,
                   v1::CapturePolicy& response);
  absl::Status Set(const access::Caller& caller,
                   const v1::SetCapturePolicyRequest& request,
                   v1::CapturePolicy& response);
  absl::Status Coverage(const Call& call,
                        const v1::GetCaptureCoverageRequest& request,
                        v1::CaptureCoverage& response);

  storage::RunReaders& readers_;
  ingest::IngestPipeline& pipeline_;
  const CallPools pools_;
};

}  // namespace msitd::service
