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

// A daemon without a store. It answers with the data of the test.
//
// Serves a Unix socket in a folder of its own, and a TCP port that the system
// chooses. Thread-safe, but `data` has to be set before a client starts.
class FakeDaemon {
 public:
  struct Data {
    std::vector<v1::Run> runs;
    std::vector<v1::Tensor> tensors;
    // Returned once the comparison is over.
    v1::Comparison comparison;
    std::vector<v1::ComparisonRow> rows;
    std::string bytes;  // The bytes of every tensor.
    // By the name of the tensor, whatever bins are asked for.
    std::map<std::string, v1::Histogram> histograms;
    // ComputeHistogram answers RESOURCE_EXHAUSTED.
    bool histograms_fail = false;

    // Number of ReadTensor streams that end with UNAVAILABLE after one piece.
    int broken_stream_count = 0;
    // Of ReadTensors: answers UNIMPLEMENTED, as daemons did before there was
    // it; leaves out the tensors at these places of each request; breaks with
    // UNAVAILABLE after so many, if not 0.
    bool is_without_read_tensors = false;
    std::set<int> left_out;
    int break_after_count = 0;
    // Number of GetComparison calls that still say RUNNING; below 0: until
    // cancelled.
    int polls_while_running = 0;
    // Number of comparisons that those calls put before this one; 0: none.
    int32_t waiting_behind_count = 0;
    // CreateComparison answers INVALID_ARGUMENT with this text, unless it is
    // empty.
    std::string refusal;
    // From its second call on, GetRun answers with this id, unless it is empty:
    // the run was deleted, and another one was made under its name.
    std::string later_run_id;
    // ListRuns does not answer until its client goes away.
    bool list_runs_hangs = false;
  };

  FakeDaemon();
  ~FakeDaemon();

  std::string endpoint() const { return "unix:" + folder_ + "/sock"; }
  std::string tcp_endpoint() const;

  Data& data() { return data_; }

  // The last request of each kind; of histograms, all.
  v1::ListTensorsRequest list_tensors() const;
  v1::SummarizeTensorsRequest summarize() const;
  std::vector<v1::ComputeHistogramRequest> histogram_requests() const;
  v1::Comparison created() const;
  v1::Run created_run() const;
  // All calls so far, by name.
  std::vector<std::string> calls() const;

  // Blocks until `call` was made once.
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
