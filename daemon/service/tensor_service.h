// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "daemon/compare/match/stream_watch.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "storage/face/run_reader.h"

namespace msitd::service {

// Implements TensorService on the runs of a store. All arguments must outlive
// it.
class TensorServiceImpl final : public BoundedService<v1::TensorService> {
 public:
  // `activity` is that of the runs of this daemon.
  TensorServiceImpl(storage::RunReaders& readers,
                    compare::ActivitySource activity, CallPools pools,
                    const Admission& admission)
      : BoundedService(admission),
        readers_(readers),
        activity_(std::move(activity)),
        pools_(pools) {
    Bound("GetTensor", &TensorServiceImpl::GetTensor);
    Bound("ListTensors", &TensorServiceImpl::ListTensors);
    Bound("ReadTensor", &TensorServiceImpl::ReadTensor);
    Bound("ReadTensors", &TensorServiceImpl::ReadTensors);
    Bound("SummarizeTensors", &TensorServiceImpl::SummarizeTensors);
    Bound("ComputeHistogram", &TensorServiceImpl::ComputeHistogram);
    Bound("FindOrigin", &TensorServiceImpl::FindOrigin);
  }

  grpc::ServerUnaryReactor* GetTensor(grpc::CallbackServerContext* context,
                                      const v1::GetTensorRequest* request,
                                      v1::Tensor* response) override;
  grpc::ServerUnaryReactor* ListTensors(
      grpc::CallbackServerContext* context,
      const v1::ListTensorsRequest* request,
      v1::ListTensorsResponse* response) override;
  grpc::ServerWriteReactor<v1::ReadTensorResponse>* ReadTensor(
      grpc::CallbackServerContext* context,
      const v1::ReadTensorRequest* request) override;
  grpc::ServerWriteReactor<v1::ReadTensorsResponse>* ReadTensors(
      grpc::CallbackServerContext* context,
      const v1::ReadTensorsRequest* request) override;
  grpc::ServerUnaryReactor* SummarizeTensors(
      grpc::CallbackServerContext* context,
      const v1::SummarizeTensorsRequest* request,
      v1::SummarizeTensorsResponse* response) override;
  grpc::ServerUnaryReactor* ComputeHistogram(
      grpc::CallbackServerContext* context,
      const v1::ComputeHistogramRequest* request,
      v1::Histogram* response) override;
  grpc::ServerUnaryReactor* FindOrigin(
      grpc::CallbackServerContext* context,
      const v1::FindOriginRequest* request,
      v1::FindOriginResponse* response) override;

 private:
  absl::Status Get(const Call& call, const v1::GetTensorRequest& request,
                   v1::Tensor& response);
  absl::Status List(const Call& call, const v1::ListTensorsRequest& request,
                    v1::ListTensorsResponse& response);
  absl::Status Summarize(const Call& call,
                         const v1::SummarizeTensorsRequest& request,
                         v1::SummarizeTensorsResponse& response);
  absl::Status Histogram(const Call& call,
                         const v1::ComputeHistogramRequest& request,
                         v1::Histogram& response);
  absl::Status Origin(const Call& call, const v1::FindOriginRequest& request,
                      v1::FindOriginResponse& response);

  storage::RunReaders& readers_;
  const compare::ActivitySource activity_;
  const CallPools pools_;
};

}  // namespace msitd::service
