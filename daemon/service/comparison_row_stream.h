// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/service/call/reactor.h"
#include "daemon/service/call/task_pool.h"
#include "grpcpp/support/server_callback.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// One call of StreamComparisonRows. Owns itself until gRPC is done with it.
//
// At any time exactly one of these has the call in hand and may touch it: a
// task of the pool, a write of gRPC, or a waiter of the comparison that the
// next rows will wake. A cancelled call takes it from the waiter.
class ComparisonRowStream final
    : public grpc::ServerWriteReactor<v1::StreamComparisonRowsResponse> {
 public:
  static grpc::ServerWriteReactor<v1::StreamComparisonRowsResponse>* Start(
      compare::ComparisonJobs& jobs, TaskPool& pool,
      const grpc::CallbackServerContext& context,
      const v1::StreamComparisonRowsRequest& request);

 private:
  // Where the call is while it waits. Shared by the call and by those of its
  // methods that may still hold the lock when the call has gone.
  struct Parking {
    Mutex mu;
    bool cancelled ABSL_GUARDED_BY(mu) = false;
    uint64_t waiter ABSL_GUARDED_BY(mu) = 0;
  };

  ComparisonRowStream(compare::ComparisonJobs& jobs, TaskPool& pool,
                      const grpc::CallbackServerContext& context)
      : jobs_(jobs), pool_(pool), call_(context) {}

  absl::Status Open(const v1::StreamComparisonRowsRequest& request);
  void Step();
  void Continue();
  void Park(uint64_t version);
  // Fills message_; kWait leaves the version to wait behind in sent_version_.
  absl::StatusOr<StreamStep> Produce();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  compare::ComparisonJobs& jobs_;
  TaskPool& pool_;
  Call call_;
  const std::shared_ptr<Parking> parking_ = std::make_shared<Parking>();
  uint64_t id_ = 0;
  std::shared_ptr<void> reader_;  // See ComparisonJobs::AddReader.
  int64_t next_row_ = 0;
  // Version of the last comparison sent, and whether that one had ended.
  std::optional<uint64_t> sent_version_;
  bool sent_end_ = false;
  v1::StreamComparisonRowsResponse message_;
};

}  // namespace msitd::service
