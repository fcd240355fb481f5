// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "msitd/v1/comparison_service.grpc.pb.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "protos/status/mutex.h"

namespace msitd::msitctl {

// A daemon without a store, which responds with the data of the test.
//
// It serves a Unix socket in its own folder, and a TCP port that the system
// selects. Thread-safe, but `data` must be set before a client starts.
class FakeDaemon {
 public:
  struct Data {
    std::vector<v1::Run> runs;
    std::vector<v1::Tensor> tensors;
    // Returned after the comparison has ended.
    v1::Comparison comparison;
    std::vector<v1::ComparisonRow> rows;
    std::string bytes;  // The bytes of all tensors.
    // Histograms by the name of the tensor, for any requested bins.
    std::map<std::string, v1::Histogram> histograms;
    // Number of calls of ComputeHistogram that fail with RESOURCE_EXHAUSTED.
    int busy_histogram_count = 0;

    // Number of ReadTensor streams that fail with UNAVAILABLE after one piece.
    int broken_stream_count = 0;
    // Behavior of ReadTensors. It fails with UNIMPLEMENTED, like daemons that
    // do not have it. It omits the tensors at these positions of each request.
    // It fails with UNAVAILABLE after this many tensors, unless the number is
    // 0.
    bool is_without_read_tensors = false;
    std::set<int> left_out;
    int break_after_count = 0;
    // Number of GetComparison calls that return RUNNING. Negative: RUNNING
    // until the comparison is cancelled.
    int polls_while_running = 0;
    // Number of comparisons that these calls report as queued before this one;
    // 0: none.
    int32_t waiting_behind_count = 0;
    // Unless it is empty, CreateComparison fails with INVALID_ARGUMENT and this
    // text.
    std::string refusal;
    // Unless it is empty, GetRun returns this id from its second call on, as if
    // the run was deleted and another run of the same name was created.
    std::string later_run_id;
    // Returned by ListTensors if it is asked for documents, of which there are
    // none.
    grpc::Status document_status;
    // Makes ListRuns block until its client disconnects.
    bool list_runs_hangs = false;
  };

  FakeDaemon();
  ~FakeDaemon();

  std::string endpoint() const { return "unix:" + folder_ + "/sock"; }
  std::string tcp_endpoint() const;

  Data& data() { return data_; }

  // Return the last request of each kind, but all requests for histograms.
  v1::ListTensorsRequest list_tensors() const;
  v1::SummarizeTensorsRequest summarize() const;
  std::vector<v1::ComputeHistogramRequest> histogram_requests() const;
  v1::Comparison created() const;
  v1::Run created_run() const;
  // Returns the names of all calls so far.
  std::vector<std::string> calls() const;

  // Blocks until `call` has been made once.
  void WaitForCall(const std::string& call);

 private:
  class Runs;
  class Tensors;
  class Comparisons;
  class Node;

  void Record(const std::string& call);

  std::string folder_;
  int port_ = 0;
  Data data_;
  mutable Mutex mu_;
  CondVar changed_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mu_);
  v1::ListTensorsRequest list_tensors_ ABSL_GUARDED_BY(mu_);
  v1::SummarizeTensorsRequest summarize_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::ComputeHistogramRequest> histogram_requests_
      ABSL_GUARDED_BY(mu_);
  v1::Comparison created_ ABSL_GUARDED_BY(mu_);
  v1::Run created_run_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  int poll_count_ ABSL_GUARDED_BY(mu_) = 0;

  std::unique_ptr<Runs> runs_;
  std::unique_ptr<Tensors> tensors_;
  std::unique_ptr<Comparisons> comparisons_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace msitd::msitctl
