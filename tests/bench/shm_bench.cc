// SPDX-License-Identifier: Apache-2.0

// What recording costs the rank, and how fast a real daemon takes chunks out
// of shared memory, against memcpy and against raw writes to the same disk.
//
// MSITD_BIN_DIR says where msitd is, MSITD_BENCH_DIR where it may write.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "client/include/msit/msit.hpp"
#include "protos/base/aligned_buffer.h"
#include "protos/base/unique_fd.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kTensorCount = 16;
// Tensors that are recorded before the client is flushed: less than its memory
// holds, so that none waits for the disk.
constexpr int kBatch = 24;
constexpr int64_t kIngestBytes = int64_t{512} << 20;  // Of each producer.
constexpr int kProducers = 2;

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

double Seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// A daemon of its own on the disk that is to be measured.
class Daemon {
 public:
  Daemon() {
    std::string data = BenchDir() + "/msitd-XXXXXX";
    std::string sockets = "/tmp/msitd-bench-XXXXXX";
    data_ = ::mkdtemp(data.data());
    sockets_ = ::mkdtemp(sockets.data());
    const std::string binary =
        Environment("MSITD_BIN_DIR", "build/release/bin") + "/msitd";
    const std::string data_dir = data_ + "/data";
    const std::vector<const char*> arguments = {
        binary.c_str(),   "--data-dir", data_dir.c_str(), "--socket-dir",
        sockets_.c_str(), "--listen",   "none",           "--log-level",
        "warn",           nullptr};
    if (::posix_spawn(&pid_, binary.c_str(), nullptr, nullptr,
                      const_cast<char**>(arguments.data()), environ) != 0) {
      std::abort();
    }
    for (int i = 0; i < 3000; ++i) {
      if (std::filesystem::exists(sockets_ + "/endpoint")) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::abort();
  }
  ~Daemon() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(data_);
    std::filesystem::remove_all(sockets_);
  }

  static std::string BenchDir() { return Environment("MSITD_BENCH_DIR", "."); }

  msit::Client Open(const char* run, int rank, int world_size) const {
    msit_options options = msit::DefaultOptions();
    options.endpoint = sockets_.c_str();
    options.run = run;
    options.rank = rank;
    options.world_size = world_size;
    options.max_block_us = 60'000'000;
    msit::Client client;
    if (!msit::Client::Open(options, &client).ok()) {
      std::fprintf(stderr, "open: %s\n", msit_last_error());
      std::abort();
    }
    return client;
  }

 private:
  std::string data_;
  std::string sockets_;
  pid_t pid_ = -1;
};

std::vector<std::vector<float>> Tensors(size_t bytes) {
  std::minstd_rand random(1);
  std::vector<std::vector<float>> out(kTensorCount);
  for (std::vector<float>& tensor : out) {
    tensor.resize(bytes / sizeof(float));
    for (float& value : tensor) value = static_cast<float>(random()) * 1e-9f;
  }
  return out;
}

bool Record(msit::Client& client, const std::vector<float>& tensor, int64_t n) {
  const std::string op = "model.layers." + std::to_string(n % 64) + ".mlp";
  const int64_t dims[] = {static_cast<int64_t>(tensor.size())};
  msit::Key key;
  key.op = op.c_str();
  key.token = n / 64;
  key.call = 0;
  return client.Record(key, std::span<const float>(tensor), dims).ok();
}

void Flush(msit::Client& client) {
  if (!client.Flush(std::chrono::seconds(120)).ok()) std::abort();
}

void BM_MemcpyMiB(benchmark::State& state) {
  const auto tensors = Tensors(kMiB);
  msitd::AlignedBuffer out(kBatch * kMiB);
  std::memset(out.data(), 1, out.size());
  for (auto _ : state) {
    const auto start = Clock::now();
    for (size_t i = 0; i < kBatch; ++i) {
      std::memcpy(out.data() + i * kMiB, tensors[i % kTensorCount].data(),
                  kMiB);
      benchmark::ClobberMemory();
    }
    state.SetIterationTime(Seconds(Clock::now() - start));
  }
  state.SetBytesProcessed(state.iterations() * kBatch * kMiB);
}
BENCHMARK(BM_MemcpyMiB)->UseManualTime();

void BM_RecordMiB(benchmark::State& state) {
  const Daemon daemon;
  const auto tensors = Tensors(kMiB);
  msit::Client client = daemon.Open("record", 0, 1);
  int64_t n = 0;
  // Every page of the memory is there from the second round on.
  const auto round = [&] {
    for (int i = 0; i < kBatch; ++i, ++n) {
      if (!Record(client, tensors[static_cast<size_t>(n) % kTensorCount], n)) {
        std::abort();
      }
    }
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
BENCHMARK(BM_RecordMiB)->UseManualTime();

// The median of single records of 8 KiB, in seconds.
void BM_RecordSmall(benchmark::State& state) {
  const Daemon daemon;
  const auto tensors = Tensors(8 << 10);
  msit::Client client = daemon.Open("small", 0, 1);
  std::vector<double> times;
  int64_t n = 0;
  for (auto _ : state) {
    times.clear();
    for (int i = 0; i < 2000; ++i, ++n) {
      const auto start = Clock::now();
      const bool is_recorded =
          Record(client, tensors[static_cast<size_t>(n) % kTensorCount], n);
      times.push_back(Seconds(Clock::now() - start));
      if (!is_recorded) std::abort();
    }
    std::nth_element(times.begin(), times.begin() + 1000, times.end());
    state.SetIterationTime(times[1000]);
    Flush(client);
  }
}
BENCHMARK(BM_RecordSmall)->UseManualTime()->Iterations(50);

void BM_IngestMiB(benchmark::State& state) {
  const Daemon daemon;
  const auto tensors = Tensors(kMiB);
  std::vector<msit::Client> clients;
  for (int i = 0; i < kProducers; ++i) {
    clients.push_back(daemon.Open("ingest", i, kProducers));
  }
  int64_t base = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (msit::Client& client : clients) {
      threads.emplace_back([&client, &tensors, base] {
        for (int64_t i = 0; i < kIngestBytes / static_cast<int64_t>(kMiB);
             ++i) {
          if (!Record(client, tensors[static_cast<size_t>(i) % kTensorCount],
                      base + i)) {
            std::abort();
          }
        }
        Flush(client);
      });
    }
    for (std::thread& thread : threads) thread.join();
    state.SetIterationTime(Seconds(Clock::now() - start));
    base += 1 << 20;
  }
  state.SetBytesProcessed(state.iterations() * kProducers * kIngestBytes);
}
BENCHMARK(BM_IngestMiB)->UseManualTime()->Iterations(4);

void BM_RawWrite(benchmark::State& state) {
  const std::string path = Daemon::BenchDir() + "/raw-write";
  msitd::AlignedBuffer buffer(4 * kMiB);
  std::memset(buffer.data(), 7, buffer.size());
  for (auto _ : state) {
    const msitd::UniqueFd file(
        ::open(path.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600));
    if (!file.valid()) std::abort();
    const int64_t bytes = kProducers * kIngestBytes;
    (void)::posix_fallocate(file.get(), 0, bytes);
    const auto start = Clock::now();
    for (int64_t at = 0; at < bytes;
         at += static_cast<int64_t>(buffer.size())) {
      if (::pwrite(file.get(), buffer.data(), buffer.size(), at) !=
          static_cast<ssize_t>(buffer.size())) {
        std::abort();
      }
    }
    if (::fdatasync(file.get()) != 0) std::abort();
    state.SetIterationTime(Seconds(Clock::now() - start));
  }
  ::unlink(path.c_str());
  state.SetBytesProcessed(state.iterations() * kProducers * kIngestBytes);
}
BENCHMARK(BM_RawWrite)->UseManualTime()->Iterations(4);

}  // namespace
