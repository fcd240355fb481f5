// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/libmsit/include/msit/msit.hpp"

// Helpers for benchmarks with a daemon. Any error ends the process, because
// there is nothing to measure without a daemon.
namespace msitd::bench {

// The environment provides the location of msitd (MSITD_BIN_DIR), the directory
// for output (MSITD_BENCH_DIR), and the amount of work. `otherwise` is the
// default.
std::string Environment(const char* name, const char* otherwise);
int64_t Number(const char* name, int64_t otherwise);

inline double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Prints `what` to standard error and ends the process.
[[noreturn]] void Fail(std::string_view what);

// Creates a directory, which the caller removes.
std::string NewDirectory(std::string path);

// A daemon with its own store on the disk that is measured.
class BenchDaemon {
 public:
  static std::string BenchDir() { return Environment("MSITD_BENCH_DIR", "."); }

  // `listen` is the value of msitd's flag `--listen`.
  explicit BenchDaemon(const std::string& listen = "none");
  ~BenchDaemon();
  BenchDaemon(const BenchDaemon&) = delete;
  BenchDaemon& operator=(const BenchDaemon&) = delete;

  // Opens one rank of `run`, over shared memory or over the network.
  msit::Client Open(const char* run, int rank, int world_size) const {
    return Open(run, rank, world_size, sockets_);
  }
  msit::Client OpenRemote(const char* run) const {
    return Open(run, 0, 1, NetworkEndpoint());
  }

  // Makes the clients of `run` record only ops called `op`.
  void SelectOnly(const char* run, const char* op) const;

  // Sets a capture policy that requests only summaries.
  void SelectSummaries(const char* run) const;

  // Returns the memory of the daemon in bytes, without the memory that it
  // shares with ranks.
  int64_t MemoryBytes() const;

 private:
  // Runs `msitctl capture set`.
  void SetCapture(const char* run, const char* flag, const char* value) const;

  msit::Client Open(const char* run, int rank, int world_size,
                    const std::string& endpoint) const;
  std::string NetworkEndpoint() const;

  std::string data_;
  std::string sockets_;
  pid_t pid_ = -1;
};

inline constexpr size_t kMiB = size_t{1} << 20;

// Creates a few tensors of `bytes` bytes each.
using Tensors = std::vector<std::vector<float>>;
Tensors MakeTensors(size_t bytes);

// Records one of `tensors` as the `n`th record of the client. A token has 64
// ops.
void Record(msit::Client& client, const Tensors& tensors, int64_t n);
// The same, of bytes that the client has not recorded before: first changes an
// element.
void RecordChanged(msit::Client& client, Tensors& tensors, int64_t n);

// Waits until all records are acknowledged.
void Flush(msit::Client& client);

}  // namespace msitd::bench
