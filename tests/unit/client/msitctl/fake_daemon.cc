// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/msitctl/fake_daemon.h"

#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "protos/base/check.h"

namespace msitd::msitctl {
namespace {

using google::protobuf::Empty;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

constexpr size_t kPieceBytes = 1000;

// `run` is the missing run, if the error is about a run.
Status Refuse(StatusCode code, const std::string& reason,
              const std::string& message, const std::string& run = "") {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("msitd");
  if (!run.empty()) (*info.mutable_metadata())["run"] = run;
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(message);
  details.add_details()->PackFrom(info);
  return Status(code, message, details.SerializeAsString());
}

// Fills one page. The page token is the number of rows before the page.
template <typename Request, typename T, typename Add>
std::string Page(const Request& request, const std::vector<T>& all, Add add) {
  const size_t begin =
      request.page_token().empty() ? 0 : std::stoul(request.page_token());
  const size_t size =
      request.page_size() == 0 ? 100 : static_cast<size_t>(request.page_size());
  const size_t end = std::min(begin + size, all.size());
  for (size_t i = begin; i < end; ++i) add(all[i]);
  return end < all.size() ? std::to_string(end) : "";
}

}  // namespace

class FakeDaemon::Runs final : public v1::RunService::Service {
 public:
  explicit Runs(FakeDaemon& daemon) : daemon_(daemon) {}

  Status GetRun(ServerContext*, const v1::GetRunRequest* request,
                v1::Run* run) override {
    daemon_.Record("GetRun");
    const Status found = Find(request->run(), *run);
    if (was_asked_.exchange(true) && !daemon_.data_.later_run_id.empty()) {
      run->set_id(daemon_.data_.later_run_id);
    }
    return found;
  }
  Status ListRuns(ServerContext* context, const v1::ListRunsRequest* request,
                  v1::ListRunsResponse* response) override {
    daemon_.Record("ListRuns");
    if (daemon_.data_.list_runs_hangs) {
      MutexLock lock(daemon_.mu_);
      while (!context->IsCancelled()) {
        daemon_.changed_.WaitUntil(
            daemon_.mu_,
            std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
      }
      return Status::CANCELLED;
    }
    response->set_next_page_token(
        Page(*request, daemon_.data_.runs,
             [&](const v1::Run& run) { *response->add_runs() = run; }));
    return Status::OK;
  }
  Status CreateRun(ServerContext*, const v1::CreateRunRequest* request,
                   v1::Run* run) override {
    daemon_.Record("CreateRun");
    *run = request->run();
    run->set_state(v1::Run::ACTIVE);
    MutexLock lock(daemon_.mu_);
    daemon_.created_run_ = request->run();
    return Status::OK;
  }
  Status SealRun(ServerContext*, const v1::SealRunRequest* request,
                 v1::Run* run) override {
    daemon_.Record("SealRun");
    Status status = Find(request->run(), *run);
    run->set_state(v1::Run::SEALED);
    return status;
  }
  Status SetRunRetention(ServerContext*,
                         const v1::SetRunRetentionRequest* request,
                         v1::Run* run) override {
    daemon_.Record("SetRunRetention");
    Status status = Find(request->run(), *run);
    *run->mutable_retention() = request->retention();
    return status;
  }
  Status DeleteRun(ServerContext*, const v1::DeleteRunRequest* request,
                   Empty*) override {
    daemon_.Record("DeleteRun");
    v1::Run run;
    return Find(request->run(), run);
  }

 private:
  Status Find(const std::string& name, v1::Run& run) {
    for (const v1::Run& candidate : daemon_.data_.runs) {
      if (candidate.name() != name) continue;
      run = candidate;
      return Status::OK;
    }
    return Refuse(StatusCode::NOT_FOUND, "RUN_NOT_FOUND",
                  fmt::format("no run \"{}\"", name), name);
  }

  FakeDaemon& daemon_;
  std::atomic<bool> was_asked_ = false;
};

class FakeDaemon::Tensors final : public v1::TensorService::Service {
 public:
  explicit Tensors(FakeDaemon& daemon) : daemon_(daemon) {}

  Status GetTensor(ServerContext*, const v1::GetTensorRequest* request,
                   v1::Tensor* tensor) override {
    daemon_.Record("GetTensor");
    for (const v1::Tensor& candidate : daemon_.data_.tensors) {
      if (candidate.name() != request->name()) continue;
      *tensor = candidate;
      return Status::OK;
    }
    return Refuse(StatusCode::NOT_FOUND, "TENSOR_NOT_FOUND", "no such tensor");
  }
  Status ListTensors(ServerContext*, const v1::ListTensorsRequest* request,
                     v1::ListTensorsResponse* response) override {
    daemon_.Record("ListTensors");
    {
      MutexLock lock(daemon_.mu_);
      daemon_.list_tensors_ = *request;
    }
    const auto& kinds = request->filter().kinds();
    const bool lists_documents =
        std::count(kinds.begin(), kinds.end(), v1::RECORD_KIND_DOCUMENT) > 0;
    // It has tensors only.
    if (lists_documents) return daemon_.data_.document_status;
    response->set_next_page_token(Page(
        *request, daemon_.data_.tensors,
        [&](const v1::Tensor& tensor) { *response->add_tensors() = tensor; }));
    return Status::OK;
  }
  Status ReadTensor(
      ServerContext*, const v1::ReadTensorRequest* request,
      grpc::ServerWriter<v1::ReadTensorResponse>* writer) override {
    daemon_.Record("ReadTensor");
    const std::string& bytes = daemon_.data_.bytes;
    bool breaks = false;
    {
      MutexLock lock(daemon_.mu_);
      breaks = daemon_.data_.broken_stream_count-- > 0;
    }
    auto offset = static_cast<size_t>(request->offset_bytes());
    do {
      v1::ReadTensorResponse response;
      response.set_offset_bytes(static_cast<int64_t>(offset));
      response.set_data(bytes.substr(offset, kPieceBytes));
      writer->Write(response);
      offset += response.data().size();
      if (breaks) return Status(StatusCode::UNAVAILABLE, "going down");
    } while (offset < bytes.size());
    return Status::OK;
  }
  Status ReadTensors(
      ServerContext*, const v1::ReadTensorsRequest* request,
      grpc::ServerWriter<v1::ReadTensorsResponse>* writer) override {
    daemon_.Record("ReadTensors");
    const Data& data = daemon_.data_;
    if (data.is_without_read_tensors) {
      return Status(StatusCode::UNIMPLEMENTED, "");
    }
    for (int i = 0; i < request->names_size(); ++i) {
      if (data.break_after_count != 0 && i == data.break_after_count) {
        return Status(StatusCode::UNAVAILABLE, "going down");
      }
      if (data.left_out.count(i) != 0) continue;
      v1::ReadTensorsResponse response;
      auto& tensor = *response.add_tensors();
      tensor.set_position(i);
      tensor.set_data(data.bytes);
      writer->Write(response);
    }
    return Status::OK;
  }
  Status SummarizeTensors(ServerContext*,
                          const v1::SummarizeTensorsRequest* request,
                          v1::SummarizeTensorsResponse* response) override {
    daemon_.Record("SummarizeTensors");
    auto* group = response->add_groups();
    group->set_key("0");
    group->set_tensor_count(static_cast<int64_t>(daemon_.data_.tensors.size()));
    group->set_size_bytes(4096);
    group->mutable_summary()->set_count(1024);
    group->mutable_summary()->set_min(-1.5);
    MutexLock lock(daemon_.mu_);
    daemon_.summarize_ = *request;
    return Status::OK;
  }
  Status ComputeHistogram(ServerContext*,
                          const v1::ComputeHistogramRequest* request,
                          v1::Histogram* response) override {
    daemon_.Record("ComputeHistogram");
    bool is_busy = false;
    {
      MutexLock lock(daemon_.mu_);
      daemon_.histogram_requests_.push_back(*request);
      is_busy = daemon_.data_.busy_histogram_count > 0;
      if (is_busy) --daemon_.data_.busy_histogram_count;
    }
    if (is_busy) {
      return Refuse(StatusCode::RESOURCE_EXHAUSTED, "REQUESTS_EXHAUSTED",
                    "too many requests");
    }
    const auto found = daemon_.data_.histograms.find(request->name());
    if (found == daemon_.data_.histograms.end()) {
      return Refuse(StatusCode::NOT_FOUND, "TENSOR_NOT_FOUND",
                    "no such tensor");
    }
    *response = found->second;
    return Status::OK;
  }

 private:
  FakeDaemon& daemon_;
};

class FakeDaemon::Comparisons final : public v1::ComparisonService::Service {
 public:
  explicit Comparisons(FakeDaemon& daemon) : daemon_(daemon) {}

  Status CreateComparison(ServerContext*,
                          const v1::CreateComparisonRequest* request,
                          v1::Comparison* comparison) override {
    {
      MutexLock lock(daemon_.mu_);
      daemon_.created_ = request->comparison();
    }
    daemon_.Record("CreateComparison");
    if (request->comparison().golden_run() == "nope") {
      return Refuse(StatusCode::NOT_FOUND, "RUN_NOT_FOUND", "no run \"nope\"");
    }
    if (!daemon_.data_.refusal.empty()) {
      return Refuse(StatusCode::INVALID_ARGUMENT, "PREDICATE_INVALID",
                    daemon_.data_.refusal);
    }
    *comparison = daemon_.data_.comparison;
    comparison->set_state(v1::Comparison::PENDING);
    return Status::OK;
  }
  Status GetComparison(ServerContext*, const v1::GetComparisonRequest* request,
                       v1::Comparison* comparison) override {
    daemon_.Record("GetComparison");
    if (request->comparison() != daemon_.data_.comparison.name()) {
      return Refuse(StatusCode::NOT_FOUND, "COMPARISON_NOT_FOUND",
                    "no comparison");
    }
    *comparison = daemon_.data_.comparison;
    MutexLock lock(daemon_.mu_);
    const int running = daemon_.data_.polls_while_running;
    if (daemon_.cancelled_) {
      comparison->set_state(v1::Comparison::CANCELLED);
    } else if (running < 0 || daemon_.poll_count_++ < running) {
      const int32_t before = daemon_.data_.waiting_behind_count;
      comparison->set_state(before == 0 ? v1::Comparison::RUNNING
                                        : v1::Comparison::PENDING);
      comparison->set_waiting_behind_count(before);
    }
    return Status::OK;
  }
  Status ListComparisons(ServerContext*, const v1::ListComparisonsRequest*,
                         v1::ListComparisonsResponse* response) override {
    daemon_.Record("ListComparisons");
    *response->add_comparisons() = daemon_.data_.comparison;
    return Status::OK;
  }
  Status CancelComparison(ServerContext*, const v1::CancelComparisonRequest*,
                          v1::Comparison* comparison) override {
    daemon_.Record("CancelComparison");
    *comparison = daemon_.data_.comparison;
    comparison->set_state(v1::Comparison::CANCELLED);
    MutexLock lock(daemon_.mu_);
    daemon_.cancelled_ = true;
    return Status::OK;
  }
  Status DeleteComparison(ServerContext*, const v1::DeleteComparisonRequest*,
                          Empty*) override {
    daemon_.Record("DeleteComparison");
    return Status::OK;
  }
  Status ListComparisonRows(ServerContext*,
                            const v1::ListComparisonRowsRequest* request,
                            v1::ListComparisonRowsResponse* response) override {
    daemon_.Record("ListComparisonRows");
    std::vector<v1::ComparisonRow> rows;
    for (const v1::ComparisonRow& row : daemon_.data_.rows) {
      const auto takes = [](const auto& wanted, const auto& value) {
        return wanted.empty() ||
               std::count(wanted.begin(), wanted.end(), value) > 0;
      };
      if (takes(request->verdicts(), row.verdict()) &&
          takes(request->rows(), row.row()) &&
          takes(request->op_patterns(), row.op())) {
        rows.push_back(row);
      }
    }
    response->set_next_page_token(Page(
        *request, rows,
        [&](const v1::ComparisonRow& row) { *response->add_rows() = row; }));
    return Status::OK;
  }

 private:
  FakeDaemon& daemon_;
};

class FakeDaemon::Node final : public v1::NodeService::Service {
 public:
  explicit Node(FakeDaemon& daemon) : daemon_(daemon) {}

  Status GetCapabilities(ServerContext*, const v1::GetCapabilitiesRequest*,
                         v1::Capabilities* capabilities) override {
    daemon_.Record("GetCapabilities");
    capabilities->set_version("1.2.3");
    capabilities->set_read_piece_bytes_max(1 << 20);
    const auto add = [&](const char* name, v1::Metric::Family family,
                         bool is_default) {
      capabilities->add_metrics(name);
      v1::Metric& metric = *capabilities->add_metric_table();
      metric.set_name(name);
      metric.set_family(family);
      metric.set_direction(name == std::string_view("cosine")
                               ? v1::Metric::HIGHER_IS_BETTER
                               : v1::Metric::LOWER_IS_BETTER);
      metric.set_in_default_columns(is_default);
    };
    for (const char* metric : {"cosine", "max_abs", "mean_abs", "max_rel",
                               "mean_rel", "rmse", "nl2", "kl"}) {
      add(metric, v1::Metric::FUSED, true);
    }
    add("sqnr_db", v1::Metric::FUSED, false);
    add("max_ulp", v1::Metric::ELEMENT, false);
    return Status::OK;
  }
  Status GetNodeStatus(ServerContext*, const v1::GetNodeStatusRequest*,
                       v1::NodeStatus* status) override {
    daemon_.Record("GetNodeStatus");
    status->set_version("1.2.3");
    status->mutable_uptime()->set_seconds(187);
    status->set_storage_state(v1::NodeStatus::OK);
    status->set_disk_free_bytes(int64_t{3} << 30);
    return Status::OK;
  }

 private:
  FakeDaemon& daemon_;
};

FakeDaemon::FakeDaemon()
    : runs_(std::make_unique<Runs>(*this)),
      tensors_(std::make_unique<Tensors>(*this)),
      comparisons_(std::make_unique<Comparisons>(*this)),
      node_(std::make_unique<Node>(*this)) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(endpoint(), grpc::InsecureServerCredentials());
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(runs_.get());
  builder.RegisterService(tensors_.get());
  builder.RegisterService(comparisons_.get());
  builder.RegisterService(node_.get());
  server_ = builder.BuildAndStart();
  MSITD_CHECK(server_ != nullptr);
}

FakeDaemon::~FakeDaemon() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  std::filesystem::remove_all(folder_);
}

std::string FakeDaemon::tcp_endpoint() const {
  return fmt::format("127.0.0.1:{}", port_);
}

void FakeDaemon::Record(const std::string& call) {
  MutexLock lock(mu_);
  calls_.push_back(call);
  changed_.NotifyAll();
}

void FakeDaemon::WaitForCall(const std::string& call) {
  MutexLock lock(mu_);
  while (std::count(calls_.begin(), calls_.end(), call) == 0) {
    changed_.Wait(mu_);
  }
}

v1::ListTensorsRequest FakeDaemon::list_tensors() const {
  MutexLock lock(mu_);
  return list_tensors_;
}

v1::SummarizeTensorsRequest FakeDaemon::summarize() const {
  MutexLock lock(mu_);
  return summarize_;
}

std::vector<v1::ComputeHistogramRequest> FakeDaemon::histogram_requests()
    const {
  MutexLock lock(mu_);
  return histogram_requests_;
}

v1::Comparison FakeDaemon::created() const {
  MutexLock lock(mu_);
  return created_;
}

v1::Run FakeDaemon::created_run() const {
  MutexLock lock(mu_);
  return created_run_;
}

std::vector<std::string> FakeDaemon::calls() const {
  MutexLock lock(mu_);
  return calls_;
}

}  // namespace msitd::msitctl
