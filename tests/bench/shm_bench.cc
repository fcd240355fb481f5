// SPDX-License-Identifier: Apache-2.0

// Cost of recording for the rank, and rate at which a real daemon consumes
// chunks from shared memory, compared with memcpy and with raw writes to the
// same disk.
//
// MSITD_BENCH_MIB is the amount of data that one iteration writes to the disk.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "client/libmsit/include/msit/msit.hpp"
#include "protos/os/aligned_buffer.h"
#include "protos/os/unique_fd.h"
#include "tests/bench/bench_daemon.h"

namespace msitd::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Number of tensors that are recorded before the client is flushed. They fit
// into the memory of the client, so no record waits for the disk.
constexpr int kBatch = 24;
constexpr int kProducers = 2;

// Number of tensors of 1 MiB that each producer records.
int64_t IngestCount() { return Number("MSITD_BENCH_MIB", 1024) / kProducers; }
int64_t IngestBytes() {
  return kProducers * IngestCount() * static_cast<int64_t>(kMiB);
}

void BM_MemcpyMiB(benchmark::State& state) {
  const Tensors tensors = MakeTensors(kMiB);
  AlignedBuffer out(kBatch * kMiB);
  std::memset(out.data(), 1, out.size());
  for (auto _ : state) {
    const auto start = Clock::now();
    for (size_t i = 0; i < kBatch; ++i) {
      std::memcpy(out.data() + i * kMiB, tensors[i % tensors.size()].data(),
                  kMiB);
      benchmark::ClobberMemory();
    }
    state.SetIterationTime(Seconds(Clock::now() - start));
  }
  state.SetBytesProcessed(state.iterations() * kBatch * kMiB);
}
BENCHMARK(BM_MemcpyMiB)->UseManualTime();

using RecordFunction = void(msit::Client& client, Tensors& tensors, int64_t n);

void RecordMiB(benchmark::State& state, const BenchDaemon& daemon,
               RecordFunction* record) {
  Tensors tensors = MakeTensors(kMiB);
  msit::Client client = daemon.Open("record", 0, 1);
  int64_t n = 0;
  // All pages of the memory are mapped after the first round.
  const auto round = [&] {
    for (int i = 0; i < kBatch; ++i, ++n) record(client, tensors, n);
  };
  for (int i = 0; i < 4; ++i) {
    round();
    Flush(client);
  }
  for (auto _ : state) {
    const auto start = Clock::now();
    round();
    state.SetIterationTime(Seconds(Clock::now() - start));
    Flush(client);
  }
  state.SetBytesProcessed(state.iterations() * kBatch * kMiB);
}

void BM_RecordMiB(benchmark::State& state) {
  RecordMiB(state, BenchDaemon(), RecordChanged);
}
BENCHMARK(BM_RecordMiB)->UseManualTime();

void BM_RecordSummaryMiB(benchmark::State& state) {
  const BenchDaemon daemon;
  daemon.SelectSummaries("record");
  RecordMiB(state, daemon, RecordChanged);
}
BENCHMARK(BM_RecordSummaryMiB)->UseManualTime();

// Bytes that the client has recorded before.
void BM_RecordSummaryAgainMiB(benchmark::State& state) {
  const BenchDaemon daemon;
  daemon.SelectSummaries("record");
  RecordMiB(state, daemon,
            [](msit::Client& client, Tensors& tensors, int64_t n) {
              Record(client, tensors, n);
            });
}
BENCHMARK(BM_RecordSummaryAgainMiB)->UseManualTime();

// Reports the median time of single records of 8 KiB, in seconds.
void BM_RecordSmall(benchmark::State& state) {
  const BenchDaemon daemon;
  const Tensors tensors = MakeTensors(8 << 10);
  msit::Client client = daemon.Open("small", 0, 1);
  std::vector<double> times;
  int64_t n = 0;
  for (auto _ : state) {
    times.clear();
    for (int i = 0; i < 2000; ++i, ++n) {
      const auto start = Clock::now();
      Record(client, tensors, n);
      times.push_back(Seconds(Clock::now() - start));
    }
    std::nth_element(times.begin(), times.begin() + 1000, times.end());
    state.SetIterationTime(times[1000]);
    Flush(client);
  }
}
BENCHMARK(BM_RecordSmall)->UseManualTime()->Iterations(50);

// Records that the capture policy does not select.
void BM_RecordFiltered(benchmark::State& state) {
  const BenchDaemon daemon;
  daemon.SelectOnly("filtered", "lm_head");
  msit::Client client = daemon.Open("filtered", 0, 1);
  const std::vector<float> tensor(2048);
  const int64_t dims[] = {static_cast<int64_t>(tensor.size())};
  msit::Key key;
  key.op = "model.layers.17.self_attn.o_proj";
  key.call = 0;
  for (auto _ : state) {
    if (!client.Record(key, std::span<const float>(tensor), dims).ok()) {
      Fail(msit_last_error());
    }
  }
  if (client.counters().filtered_count == 0) Fail("nothing was filtered");
}
BENCHMARK(BM_RecordFiltered)->UseRealTime();

void BM_IngestMiB(benchmark::State& state) {
  const BenchDaemon daemon;
  std::vector<msit::Client> clients;
  for (int i = 0; i < kProducers; ++i) {
    clients.push_back(daemon.Open("ingest", i, kProducers));
  }
  std::vector<Tensors> tensors(kProducers, MakeTensors(kMiB));
  int64_t base = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < clients.size(); ++i) {
      threads.emplace_back([&client = clients[i], &own = tensors[i], base] {
        for (int64_t n = 0; n < IngestCount(); ++n) {
          RecordChanged(client, own, base + n);
        }
        Flush(client);
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.SetIterationTime(Seconds(Clock::now() - start));
    base += 1 << 20;
  }
  state.SetBytesProcessed(state.iterations() * IngestBytes());
}
BENCHMARK(BM_IngestMiB)->UseManualTime()->Iterations(4);

void BM_RawWrite(benchmark::State& state) {
  const std::string path = BenchDaemon::BenchDir() + "/raw-write";
  AlignedBuffer buffer(4 * kMiB);
  std::memset(buffer.data(), 7, buffer.size());
  for (auto _ : state) {
    const UniqueFd file(
        ::open(path.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600));
    if (!file.valid()) Fail("cannot write " + path);
    const int64_t bytes = IngestBytes();
    (void)::posix_fallocate(file.get(), 0, bytes);
    const auto start = Clock::now();
    for (int64_t at = 0; at < bytes;
         at += static_cast<int64_t>(buffer.size())) {
      if (::pwrite(file.get(), buffer.data(), buffer.size(), at) !=
          static_cast<ssize_t>(buffer.size())) {
        Fail("cannot write " + path);
      }
    }
    if (::fdatasync(file.get()) != 0) Fail("cannot write " + path);
    state.SetIterationTime(Seconds(Clock::now() - start));
  }
  ::unlink(path.c_str());
  state.SetBytesProcessed(state.iterations() * IngestBytes());
}
BENCHMARK(BM_RawWrite)->UseManualTime()->Iterations(4);

}  // namespace
}  // namespace msitd::bench
