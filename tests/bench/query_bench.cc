// SPDX-License-Identifier: Apache-2.0

// Query latency of running daemons by the size of their index, compared with a
// bare gRPC server that returns the same responses and a bare RocksDB that has
// the same entries.
//
// MSITD_BENCH_SMALL and MSITD_BENCH_LARGE are the addresses of two daemons.
// Their runs `bench` contain MSITD_BENCH_SMALL_TENSORS and
// MSITD_BENCH_LARGE_TENSORS tensors: outputs `0` of ops `op.0` to `op.999`, at
// tokens from 0, of rank 0 on `cpu:0`. MSITD_BENCH_REDUCE_TENSORS is the number
// of tensors of the large run to reduce. MSITD_BENCH_NAMES is the address of a
// daemon whose run `bench` has many names, all of which start with 40 times `a`
// and contain no `b`.
#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "protos/base/resource_name.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/index_entries.h"

namespace msitd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Stub = v1::TensorService::Stub;

constexpr char kRun[] = "bench";
constexpr int64_t kOpsPerToken = 1000;
constexpr int kPageSize = 1000;
constexpr int kGetCount = 1000;
// Number of consecutive pages to read, and number of positions at which reading
// starts.
constexpr int kPagesInRow = 10;
constexpr int kRowCount = 10;

// A daemon or its substitute, and the contents of its index.
struct Index {
  std::unique_ptr<Stub> stub;
  int64_t tensor_count = 0;
};

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A separate pool, so that benchmarks do not share connections.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

std::unique_ptr<Stub> Connect(const std::string& address) {
  return v1::TensorService::NewStub(NewChannel(address));
}

Index Open(const char* address, const char* tensor_count) {
  return {Connect(Environment(address, "")), Number(tensor_count, 0)};
}

Index OpenSmall() {
  return Open("MSITD_BENCH_SMALL", "MSITD_BENCH_SMALL_TENSORS");
}
Index OpenLarge() {
  return Open("MSITD_BENCH_LARGE", "MSITD_BENCH_LARGE_TENSORS");
}

void Check(const grpc::Status& status) {
  if (!status.ok()) Fail(status.error_message());
}

double Percentile(std::vector<double>& times, double share) {
  const auto at =
      static_cast<size_t>(share * static_cast<double>(times.size()));
  const auto it =
      times.begin() + static_cast<ptrdiff_t>(std::min(at, times.size() - 1));
  std::nth_element(times.begin(), it, times.end());
  return *it;
}

// Calls `call` and appends its duration to `times`.
template <typename Call>
void Time(std::vector<double>& times, Call call) {
  const auto start = Clock::now();
  call();
  times.push_back(Seconds(Clock::now() - start));
}

v1::Tensor TimeGet(Stub& stub, int64_t n, std::vector<double>& times) {
  TensorKey key;
  key.run = kRun;
  key.device = "cpu:0";
  key.token = n / kOpsPerToken;
  key.op = "op." + std::to_string(n % kOpsPerToken);
  key.io = Io::kOutput;
  key.index = "0";
  v1::GetTensorRequest request;
  request.set_name(FormatTensorName(key));
  v1::Tensor response;
  grpc::ClientContext context;
  Time(times, [&] { Check(stub.GetTensor(&context, request, &response)); });
  return response;
}

v1::ListTensorsResponse TimeList(Stub& stub, int64_t first_token,
                                 const std::string& page_token,
                                 std::vector<double>& times) {
  v1::ListTensorsRequest request;
  request.set_run(kRun);
  v1::TokenRange& tokens = *request.mutable_filter()->add_tokens();
  tokens.set_first(first_token);
  tokens.set_last(int64_t{1} << 39);
  request.set_page_size(kPageSize);
  request.set_page_token(page_token);
  v1::ListTensorsResponse response;
  grpc::ClientContext context;
  Time(times, [&] { Check(stub.ListTensors(&context, request, &response)); });
  if (response.tensors_size() == 0) Fail("an empty page");
  return response;
}

void MeasureGet(benchmark::State& state, const Index& index) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> draw(0, index.tensor_count - 1);
  std::vector<double> times;
  TimeGet(*index.stub, 0, times);
  for (auto _ : state) {
    times.clear();
    for (int i = 0; i < kGetCount; ++i) {
      TimeGet(*index.stub, draw(random), times);
    }
    state.SetIterationTime(Percentile(times, 0.5));
  }
}

void MeasureListPage(benchmark::State& state, const Index& index) {
  std::mt19937_64 random(1);
  const int64_t token_count = index.tensor_count / kOpsPerToken;
  std::uniform_int_distribution<int64_t> draw(
      0, std::max<int64_t>(token_count - kPagesInRow, 0));
  std::vector<double> times;
  for (auto _ : state) {
    times.clear();
    for (int row = 0; row < kRowCount; ++row) {
      const int64_t first_token = draw(random);
      std::string page_token;
      for (int page = 0; page < kPagesInRow; ++page) {
        page_token = TimeList(*index.stub, first_token, page_token, times)
                         .next_page_token();
        if (page_token.empty()) break;
      }
    }
    state.SetIterationTime(Percentile(times, 0.99));
  }
}

// Returns the responses of a daemon without querying an index.
class BareService final : public v1::TensorService::CallbackService {
 public:
  explicit BareService(const Index& index) {
    std::vector<double> times;
    tensor_ = TimeGet(*index.stub, 0, times);
    page_ = TimeList(*index.stub, 0, "", times);
    page_.set_next_page_token("next");
  }

 private:
  grpc::ServerUnaryReactor* GetTensor(grpc::CallbackServerContext* context,
                                      const v1::GetTensorRequest* /*request*/,
                                      v1::Tensor* response) override {
    *response = tensor_;
    return Finish(context);
  }
  grpc::ServerUnaryReactor* ListTensors(
      grpc::CallbackServerContext* context,
      const v1::ListTensorsRequest* /*request*/,
      v1::ListTensorsResponse* response) override {
    *response = page_;
    return Finish(context);
  }
  static grpc::ServerUnaryReactor* Finish(
      grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  v1::Tensor tensor_;
  v1::ListTensorsResponse page_;
};

// The bare server and a connection to it.
class Bare {
 public:
  Bare() : folder_(NewDirectory("/tmp/msitd-bench")), service_(OpenSmall()) {
    const std::string address = "unix:" + folder_ + "/bare.sock";
    grpc::ServerBuilder builder;
    builder.SetMaxSendMessageSize(-1);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) Fail("no bare server");
    index_ = {Connect(address), kOpsPerToken};
  }
  ~Bare() {
    server_->Shutdown();
    std::filesystem::remove_all(folder_);
  }

  const Index& index() const { return index_; }

 private:
  const std::string folder_;
  BareService service_;
  std::unique_ptr<grpc::Server> server_;
  Index index_;
};

void BM_Get(benchmark::State& state, Index (*open)()) {
  MeasureGet(state, open());
}
BENCHMARK_CAPTURE(BM_Get, small, OpenSmall)->UseManualTime()->Iterations(3);
BENCHMARK_CAPTURE(BM_Get, large, OpenLarge)->UseManualTime()->Iterations(3);

void BM_GetBare(benchmark::State& state) {
  const Bare bare;
  MeasureGet(state, bare.index());
}
BENCHMARK(BM_GetBare)->UseManualTime()->Iterations(3);

void BM_ListPage(benchmark::State& state, Index (*open)()) {
  MeasureListPage(state, open());
}
BENCHMARK_CAPTURE(BM_ListPage, small, OpenSmall)
    ->UseManualTime()
    ->Iterations(3);
BENCHMARK_CAPTURE(BM_ListPage, large, OpenLarge)
    ->UseManualTime()
    ->Iterations(3);

void BM_ListPageBare(benchmark::State& state) {
  const Bare bare;
  MeasureListPage(state, bare.index());
}
BENCHMARK(BM_ListPageBare)->UseManualTime()->Iterations(3);

int64_t ReduceCount() { return Number("MSITD_BENCH_REDUCE_TENSORS", 100'000); }

// Reduces the first tokens to their smallest and largest element.
void BM_Summarize(benchmark::State& state) {
  const Index index = OpenLarge();
  v1::SummarizeTensorsRequest request;
  request.set_run(kRun);
  v1::TokenRange& tokens = *request.mutable_filter()->add_tokens();
  tokens.set_last(ReduceCount() / kOpsPerToken - 1);
  for (auto _ : state) {
    v1::SummarizeTensorsResponse response;
    grpc::ClientContext context;
    const auto start = Clock::now();
    Check(index.stub->SummarizeTensors(&context, request, &response));
    state.SetIterationTime(Seconds(Clock::now() - start));
    if (response.groups(0).tensor_count() != ReduceCount()) Fail("too few");
  }
}
BENCHMARK(BM_Summarize)->UseManualTime()->Iterations(5);

// Reads the same number of entries from a bare RocksDB.
void BM_ScanEntries(benchmark::State& state) {
  IndexEntries entries;
  entries.Put(0, ReduceCount());
  entries.Flush();
  for (auto _ : state) {
    const auto start = Clock::now();
    const int64_t count = entries.Scan();
    state.SetIterationTime(Seconds(Clock::now() - start));
    if (count != ReduceCount()) Fail("too few");
  }
}
BENCHMARK(BM_ScanEntries)->UseManualTime()->Iterations(5);

// Slow queries: they list, page by page, the names that match a filter with the
// maximum number of patterns. No name matches. Each query has its own
// connection.
class SlowQueries {
 public:
  explicit SlowQueries(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] { Ask(); });
    }
  }
  ~SlowQueries() {
    is_over_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  static constexpr int kPatterns = 64;

  void Ask() {
    const std::unique_ptr<Stub> stub =
        Connect(Environment("MSITD_BENCH_NAMES", ""));
    v1::ListTensorsRequest request;
    request.set_run(kRun);
    for (int i = 0; i < kPatterns; ++i) {
      request.mutable_filter()->add_op_patterns("*aaaaaaaaaaaaaaaaaaaab" +
                                                std::to_string(i));
    }
    while (!is_over_.load()) {
      v1::ListTensorsResponse response;
      grpc::ClientContext context;
      Check(stub->ListTensors(&context, request, &response));
      if (response.tensors_size() != 0) Fail("a name matches");
      request.set_page_token(response.next_page_token());
    }
  }

  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

constexpr int kStatusCount = 300;

void BM_Status(benchmark::State& state, int query_count) {
  const std::unique_ptr<v1::NodeService::Stub> stub = v1::NodeService::NewStub(
      NewChannel(Environment("MSITD_BENCH_NAMES", "")));
  const auto ask = [&stub](std::vector<double>& times) {
    v1::NodeStatus response;
    grpc::ClientContext context;
    Time(times, [&] { Check(stub->GetNodeStatus(&context, {}, &response)); });
  };
  std::vector<double> times;
  ask(times);
  const SlowQueries queries(query_count);
  for (auto _ : state) {
    times.clear();
    for (int i = 0; i < kStatusCount; ++i) {
      ask(times);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    state.SetIterationTime(Percentile(times, 0.99));
  }
}
BENCHMARK_CAPTURE(BM_Status, alone, 0)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(BM_Status, besides, 4)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace msitd::bench

int main(int argc, char** argv) {
  // Keeps gRPC alive. Shutting it down with the last channel can wait for its
  // poller for seconds.
  grpc_init();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
