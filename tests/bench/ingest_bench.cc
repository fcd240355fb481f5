// SPDX-License-Identifier: Apache-2.0

// Throughput of a daemon that receives records from several ranks, small
// records, and records over the network, compared with a bare RocksDB and a
// bare gRPC stream.
//
// MSITD_BENCH_RECORDS is the number of records of 1 KiB in one iteration.
// MSITD_BENCH_MIB is the amount of data in one iteration of the other
// benchmarks.

#include <grpc/grpc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/byte_stream.h"
#include "tests/bench/index_entries.h"

namespace msitd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kProducers = 2;
constexpr int kManyProducers = 16;
constexpr int kOpsPerToken = 512;
constexpr size_t kRecordBytes = 1024;
constexpr int kBatchRecords = 1024;

int64_t RecordCount() { return Number("MSITD_BENCH_RECORDS", 400'000); }
int64_t MebibyteCount() { return Number("MSITD_BENCH_MIB", 1024); }

// Runs `record_all` for each client on its own thread, until all its records
// are acknowledged. Returns the duration in seconds.
template <typename RecordAll>
double Produce(std::vector<msit::Client>& clients, RecordAll record_all) {
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (msit::Client& client : clients) {
    threads.emplace_back([&client, &record_all] {
      record_all(client);
      Flush(client);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return Seconds(Clock::now() - start);
}

std::vector<msit::Client> OpenAll(const BenchDaemon& daemon, int count) {
  std::vector<msit::Client> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(daemon.Open("ingest", i, count));
  }
  return clients;
}

void BM_RecordKiB(benchmark::State& state) {
  const BenchDaemon daemon;
  std::vector<msit::Client> clients = OpenAll(daemon, kProducers);
  std::vector<std::string> ops;
  for (int i = 0; i < kOpsPerToken; ++i)
    ops.push_back("op." + std::to_string(i));
  const std::vector<float> tensor(kRecordBytes / sizeof(float), 0.5f);
  const int64_t dims[] = {static_cast<int64_t>(tensor.size())};
  const int64_t count = RecordCount();
  int64_t base = 0;
  for (auto _ : state) {
    const double seconds = Produce(clients, [&](msit::Client& client) {
      for (int64_t i = 0; i < count / kProducers; ++i) {
        msit::Key key;
        key.op = ops[static_cast<size_t>(i % kOpsPerToken)].c_str();
        key.token = base + i / kOpsPerToken;
        key.call = 0;
        if (!client.Record(key, std::span<const float>(tensor), dims).ok()) {
          Fail(msit_last_error());
        }
      }
    });
    state.SetIterationTime(seconds);
    base += count;
  }
}
BENCHMARK(BM_RecordKiB)->UseManualTime()->Iterations(2);

// Puts the entries for the records of both producers, with alternating chunks.
void BM_PutEntries(benchmark::State& state) {
  IndexEntries entries;
  int64_t base = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    for (int64_t done = 0; done < RecordCount(); done += kBatchRecords) {
      const int64_t batch = done / kBatchRecords;
      entries.Put(base + batch / kProducers * kBatchRecords, kBatchRecords,
                  static_cast<uint32_t>(batch % kProducers));
    }
    state.SetIterationTime(Seconds(Clock::now() - start));
    base += RecordCount();
  }
}
BENCHMARK(BM_PutEntries)->UseManualTime()->Iterations(2);

void BM_RecordRemotely(benchmark::State& state) {
  const BenchDaemon daemon("127.0.0.1:0");
  Tensors tensors = MakeTensors(kMiB);
  std::vector<msit::Client> clients;
  clients.push_back(daemon.OpenRemote("remote"));
  int64_t n = 0;
  for (auto _ : state) {
    state.SetIterationTime(Produce(clients, [&](msit::Client& client) {
      for (int64_t i = 0; i < MebibyteCount(); ++i, ++n) {
        RecordChanged(client, tensors, n);
      }
    }));
  }
}
BENCHMARK(BM_RecordRemotely)->UseManualTime()->Iterations(2);

// Sends messages of the same size as the chunks of BM_RecordRemotely.
void BM_StreamBytes(benchmark::State& state) {
  const ByteSinkProcess sink;
  const size_t message_bytes = 4 * kMiB + 4096;
  const std::string payload(message_bytes, 'p');
  for (auto _ : state) {
    const auto start = Clock::now();
    SendBytes(sink.channel(), payload, MebibyteCount() / 4);
    state.SetIterationTime(Seconds(Clock::now() - start));
  }
}
BENCHMARK(BM_StreamBytes)->UseManualTime()->Iterations(2);

// Reports the peak memory of the daemon while many ranks stream to it, and its
// memory before that, as counters.
void BM_ManyProducers(benchmark::State& state) {
  const BenchDaemon daemon;
  std::vector<Tensors> tensors(kManyProducers, MakeTensors(kMiB));
  const int64_t before = daemon.MemoryBytes();
  std::vector<msit::Client> clients = OpenAll(daemon, kManyProducers);
  for (auto _ : state) {
    std::atomic<bool> is_done{false};
    int64_t peak = 0;
    std::thread observer([&] {
      while (!is_done.load()) {
        peak = std::max(peak, daemon.MemoryBytes());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    const double seconds = Produce(clients, [&](msit::Client& client) {
      Tensors& own = tensors[static_cast<size_t>(&client - clients.data())];
      for (int64_t i = 0; i < MebibyteCount() / kManyProducers; ++i) {
        RecordChanged(client, own, i);
      }
    });
    is_done.store(true);
    observer.join();
    state.SetIterationTime(seconds);
    state.counters["peak_bytes"] = static_cast<double>(peak);
    state.counters["before_bytes"] = static_cast<double>(before);
  }
}
BENCHMARK(BM_ManyProducers)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace msitd::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--sink") == 0) {
    return msitd::bench::RunByteSink();
  }
  // Keeps gRPC alive. Shutting it down with the last channel can wait for its
  // poller for seconds.
  grpc_init();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
