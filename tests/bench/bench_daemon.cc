// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <thread>
#include <vector>

namespace msitd::bench {
namespace {

constexpr size_t kTensorCount = 16;
constexpr int64_t kOpsPerToken = 64;

std::string Binary(const char* name) {
  return Environment("MSITD_BIN_DIR", "build/release/bin") + "/" + name;
}

// The stdout of the child is discarded, because stdout contains the results of
// the benchmark.
pid_t Start(const std::string& binary, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), binary.c_str());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  pid_t pid = -1;
  if (::posix_spawn(&pid, binary.c_str(), &actions, nullptr,
                    const_cast<char**>(arguments.data()), environ) != 0) {
    Fail("cannot start " + binary);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

int64_t Number(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

void Fail(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

std::string NewDirectory(std::string path) {
  path += "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) Fail("cannot make " + path);
  return path;
}

BenchDaemon::BenchDaemon(const std::string& listen)
    : data_(NewDirectory(BenchDir() + "/msitd")),
      sockets_(NewDirectory("/tmp/msitd-bench")) {
  const std::string data_dir = data_ + "/data";
  pid_ = Start(Binary("msitd"),
               {"--data-dir", data_dir.c_str(), "--socket-dir",
                sockets_.c_str(), "--listen", listen.c_str(), "--log-level",
                "warn", "--loopback-role", "admin"});
  for (int i = 0; i < 3000; ++i) {
    if (std::filesystem::exists(sockets_ + "/endpoint")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Fail("msitd does not serve");
}

BenchDaemon::~BenchDaemon() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  std::filesystem::remove_all(data_);
  std::filesystem::remove_all(sockets_);
}

msit::Client BenchDaemon::Open(const char* run, int rank, int world_size,
                               const std::string& endpoint) const {
  msit_options options = msit::DefaultOptions();
  options.endpoint = endpoint.c_str();
  options.run = run;
  options.rank = rank;
  options.world_size = world_size;
  options.max_block_us = 60'000'000;
  // The clients of a benchmark append to the same run, one after another.
  options.if_exists = MSIT_IF_EXISTS_APPEND;
  msit::Client client;
  if (!msit::Client::Open(options, &client).ok()) Fail(msit_last_error());
  return client;
}

std::string BenchDaemon::NetworkEndpoint() const {
  std::ifstream lines(sockets_ + "/endpoint");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("unix:")) return line;
  }
  Fail("msitd does not listen");
}

void BenchDaemon::SelectOnly(const char* run, const char* op) const {
  SetCapture(run, "--ops", op);
}

void BenchDaemon::SelectSummaries(const char* run) const {
  SetCapture(run, "--level", "summary");
}

void BenchDaemon::SetCapture(const char* run, const char* flag,
                             const char* value) const {
  const std::string endpoint = "unix:" + sockets_ + "/msitd.sock";
  const pid_t pid = Start(Binary("msitctl"),
                          {"--endpoint", endpoint.c_str(), "capture", "set",
                           "--run", run, flag, value, "-o", "name"});
  int status = -1;
  ::waitpid(pid, &status, 0);
  if (status != 0) Fail("cannot set the capture policy");
}

int64_t BenchDaemon::MemoryBytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  int64_t kibibytes = 0;
  for (std::string line; std::getline(status, line);) {
    const auto value = [&line] {
      return std::atoll(line.c_str() + line.find(':') + 1);
    };
    if (line.starts_with("VmRSS:")) kibibytes += value();
    if (line.starts_with("RssShmem:")) kibibytes -= value();
  }
  return kibibytes * 1024;
}

Tensors MakeTensors(size_t bytes) {
  std::minstd_rand random(1);
  Tensors out(kTensorCount);
  for (std::vector<float>& tensor : out) {
    tensor.resize(bytes / sizeof(float));
    for (float& value : tensor) value = static_cast<float>(random()) * 1e-9f;
  }
  return out;
}

void Record(msit::Client& client, const Tensors& tensors, int64_t n) {
  const std::vector<float>& tensor =
      tensors[static_cast<size_t>(n) % tensors.size()];
  const std::string op =
      "model.layers." + std::to_string(n % kOpsPerToken) + ".mlp";
  const int64_t dims[] = {static_cast<int64_t>(tensor.size())};
  msit::Key key;
  key.op = op.c_str();
  key.token = n / kOpsPerToken;
  key.call = 0;
  if (!client.Record(key, std::span<const float>(tensor), dims).ok()) {
    Fail(msit_last_error());
  }
}

void RecordChanged(msit::Client& client, Tensors& tensors, int64_t n) {
  tensors[static_cast<size_t>(n) % tensors.size()][0] = static_cast<float>(n);
  Record(client, tensors, n);
}

void Flush(msit::Client& client) {
  if (!client.Flush(std::chrono::seconds(300)).ok()) Fail(msit_last_error());
}

}  // namespace msitd::bench
