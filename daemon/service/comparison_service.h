// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/service/call/bounded_service.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/comparison_service.grpc.pb.h"

namespace msitd::service {

// Implements ComparisonService on the comparisons of the daemon, which must
// outlive it.
class ComparisonServiceImpl final
    : public BoundedService<v1::ComparisonService> {
 public:
  ComparisonServiceImpl(compare::ComparisonJobs& jobs, CallPools pools,
                        const Admission& admission)
      : BoundedService(admission), jobs_(jobs), pools_(pools) {
    Bound("CreateComparison", &ComparisonServiceImpl::CreateComparison,
          kLargeRequestBytesMax);
    Bound("PlanComparison", &ComparisonServiceImpl::PlanComparison,
          kLargeRequestBytesMax);
    Bound("JudgeComparison", &ComparisonServiceImpl::JudgeComparison,
          kLargeRequestBytesMax);
    Bound("GetComparison", &ComparisonServiceImpl::GetComparison);
    Bound("ListComparisons", &ComparisonServiceImpl::ListComparisons);
    Bound("CancelComparison", &ComparisonServiceImpl::CancelComparison);
    Bound("DeleteComparison", &ComparisonServiceImpl::DeleteComparison);
    Bound("ListComparisonRows", &ComparisonServiceImpl::ListComparisonRows);
    Bound("StreamComparisonRows", &ComparisonServiceImpl::StreamComparisonRows);
    Bound("SummarizeComparisonRows",
          &ComparisonServiceImpl::SummarizeComparisonRows);
    Bound("AddRowMetrics", &ComparisonServiceImpl::AddRowMetrics,
          kLargeRequestBytesMax);
  }

  grpc::ServerUnaryReactor* CreateComparison(
      grpc::CallbackServerContext* context,
      const v1::CreateComparisonRequest* request,
      v1::Comparison* response) override;
  grpc::ServerUnaryReactor* PlanComparison(
      grpc::CallbackServerContext* context,
      const v1::PlanComparisonRequest* request,
      v1::PlanComparisonResponse* response) override;
  grpc::ServerUnaryReactor* JudgeComparison(
      grpc::CallbackServerContext* context,
      const v1::JudgeComparisonRequest* request,
      v1::Comparison* response) override;
  grpc::ServerUnaryReactor* GetComparison(
      grpc::CallbackServerContext* context,
      const v1::GetComparisonRequest* request,
      v1::Comparison* response) override;
  grpc::ServerUnaryReactor* ListComparisons(
      grpc::CallbackServerContext* context,
      const v1::ListComparisonsRequest* request,
      v1::ListComparisonsResponse* response) override;
  grpc::ServerUnaryReactor* CancelComparison(
      grpc::CallbackServerContext* context,
      const v1::CancelComparisonRequest* request,
      v1::Comparison* response) override;
  grpc::ServerUnaryReactor* DeleteComparison(
      grpc::CallbackServerContext* context,
      const v1::DeleteComparisonRequest* request,
      google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* ListComparisonRows(
      grpc::CallbackServerContext* context,
      const v1::ListComparisonRowsRequest* request,
      v1::ListComparisonRowsResponse* response) override;
  grpc::ServerWriteReactor<v1::StreamComparisonRowsResponse>*
  StreamComparisonRows(grpc::CallbackServerContext* context,
                       const v1::StreamComparisonRowsRequest* request) override;
  grpc::ServerUnaryReactor* SummarizeComparisonRows(
      grpc::CallbackServerContext* context,
      const v1::SummarizeComparisonRowsRequest* request,
      v1::SummarizeComparisonRowsResponse* response) override;
  grpc::ServerUnaryReactor* AddRowMetrics(
      grpc::CallbackServerContext* context,
      const v1::AddRowMetricsRequest* request,
      v1::Comparison* response) override;

 private:
  absl::Status Create(const Call& call,
                      const v1::CreateComparisonRequest& request,
                      v1::Comparison& response);
  // Waits a short time for the end of a new comparison, and updates its state.
  void AwaitQuickEnd(const Call& call, v1::Comparison& comparison);
  absl::Status Plan(const Call& call, const v1::PlanComparisonRequest& request,
                    v1::PlanComparisonResponse& response);
  absl::Status Judge(const Call& call,
                     const v1::JudgeComparisonRequest& request,
                     v1::Comparison& response);
  absl::Status List(const v1::ListComparisonsRequest& request,
                    v1::ListComparisonsResponse& response);
  absl::Status ListRows(const Call& call,
                        const v1::ListComparisonRowsRequest& request,
                        v1::ListComparisonRowsResponse& response);
  absl::Status SummarizeRows(const Call& call,
                             const v1::SummarizeComparisonRowsRequest& request,
                             v1::SummarizeComparisonRowsResponse& response);

  compare::ComparisonJobs& jobs_;
  const CallPools pools_;
  // Calls in AwaitQuickEnd.
  std::atomic<int> quick_waits_{0};
};

}  // namespace msitd::service
