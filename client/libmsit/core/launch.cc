// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/launch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <string_view>

#include "protos/base/limits.h"
#include "protos/base/recording_job.h"
#include "protos/base/stream_id.h"

namespace msitd::libmsit {
namespace {

// Variables that torchrun, Slurm, Flux, PMIx and torch.distributed set to the
// same value for all ranks. A group that torchrun restarts is another launch,
// and so is a job that Slurm has requeued, which keeps its id.
constexpr std::array<const char*, 9> kLauncherVariables = {
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",        "SLURM_RESTART_COUNT",
    "SLURM_STEP_ID",       "FLUX_JOB_ID",
    "PMIX_NAMESPACE",      "MASTER_ADDR",
    "MASTER_PORT",
};

// Maximum number of ranks whose recordings are counted. Each recording of a
// further rank counts as its first.
constexpr size_t kRecordedRanksMax = size_t{1} << 16;

// The recordings that a process has opened. A forked child gets another object,
// because the parent's lock may be held forever.
struct RecordingCounts {
  explicit RecordingCounts(uint32_t process) : pid(process) {}

  const uint32_t pid;
  std::mutex mu;
  std::map<RecordedRank, uint32_t> counts;
};

RecordingCounts& Recordings() {
  static std::atomic<RecordingCounts*> current{nullptr};
  const auto pid = static_cast<uint32_t>(::getpid());
  RecordingCounts* known = current.load(std::memory_order_acquire);
  while (known == nullptr || known->pid != pid) {
    auto* const own = new RecordingCounts(pid);
    if (current.compare_exchange_strong(known, own)) return *own;
    delete own;
  }
  return *known;
}

uint32_t RandomWord() {
  std::random_device device;
  while (true) {
    if (const uint32_t word = device(); word != 0) return word;
  }
}

// Returns a random number that identifies this process.
uint32_t Process() {
  // The pid, and the number drawn for it. Independent of all other state,
  // therefore relaxed.
  static std::atomic<uint64_t> drawn{0};
  const auto pid = static_cast<uint32_t>(::getpid());
  uint64_t known = drawn.load(std::memory_order_relaxed);
  while (static_cast<uint32_t>(known >> 32) != pid) {
    const uint64_t mine = uint64_t{pid} << 32 | RandomWord();
    if (drawn.compare_exchange_weak(known, mine, std::memory_order_relaxed)) {
      return static_cast<uint32_t>(mine);
    }
  }
  return static_cast<uint32_t>(known);
}

// FNV-1a is sufficient, because launches only need to differ and are not
// forged.
std::string HashOf(std::string_view kind, std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(hash));
  return std::string(kind).append(" ").append(digits);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Pids are reused, but a pid together with its start time is unique.
std::string FindParent() {
  const std::string pid = std::to_string(::getppid());
  const std::string stat = ReadFile("/proc/" + pid + "/stat");
  // The process name before the last `)` may contain any character. The start
  // time is the 20th field after it.
  const size_t name_end = stat.rfind(')');
  size_t begin = name_end == std::string::npos ? stat.size() : name_end + 1;
  for (int i = 0; i < 20 && begin < stat.size(); ++i) {
    begin = std::min(stat.find(' ', begin), stat.size() - 1) + 1;
  }
  const std::string start = stat.substr(begin, stat.find(' ', begin) - begin);
  return pid + " " + start + " " + ReadFile("/proc/sys/kernel/random/boot_id");
}

// Kept after a fork, because children of a rank that become ranks as well
// belong to its launch.
const std::string& Parent() {
  static const std::string parent = FindParent();
  return parent;
}

std::string Said() {
  std::string said;
  for (const char* const variable : kLauncherVariables) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    said.append(variable).append("=").append(value).append("\n");
  }
  return said;
}

}  // namespace

uint64_t NewStreamId() {
  static std::atomic<uint32_t> next{RandomWord()};
  return MakeStreamId(Process(), next.fetch_add(1, std::memory_order_relaxed));
}

std::string LaunchOf(int32_t world_size) {
  const char* const named = std::getenv("MSITD_JOB");
  if (named != nullptr && *named != '\0') {
    const std::string_view job = named;
    return job.size() <= kJobBytesMax ? std::string(job) : HashOf("job", job);
  }
  if (world_size == 1) {
    return std::string(kLaunchOfProcess) + " " + std::to_string(Process());
  }
  const std::string said = Said();
  return said.empty() ? HashOf(kLaunchOfParent, Parent())
                      : HashOf(kLaunchOfLauncher, said);
}

uint32_t NextRecording(const RecordedRank& rank) {
  RecordingCounts& recordings = Recordings();
  const std::lock_guard lock(recordings.mu);
  const auto found = recordings.counts.find(rank);
  if (found == recordings.counts.end()) return 1;
  return std::min(found->second + 1, kRecordingNumberMax);
}

void CountRecording(const RecordedRank& rank, uint32_t number) {
  RecordingCounts& recordings = Recordings();
  const std::lock_guard lock(recordings.mu);
  const auto found = recordings.counts.find(rank);
  if (found != recordings.counts.end()) {
    found->second = std::max(found->second, number);
  } else if (recordings.counts.size() < kRecordedRanksMax) {
    recordings.counts.emplace(rank, number);
  }
}

std::string JobOf(const std::string& launch, uint32_t recording) {
  if (launch.size() <= kLaunchBytesMax) {
    return MakeRecordingJob({launch, recording});
  }
  return MakeRecordingJob({HashOf("job", launch), recording});
}

}  // namespace msitd::libmsit
