// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/freed_memory.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "protos/os/unique_fd.h"

namespace msitd::server {
namespace {

std::chrono::nanoseconds Read(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

// Excludes shared memory and files, which malloc does not manage.
uint64_t ResidentBytes() {
  char bytes[128];
  const UniqueFd fd(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  const ssize_t count = fd.valid() ? ::read(fd.get(), bytes, sizeof(bytes)) : 0;
  std::string_view text(bytes,
                        static_cast<size_t>(std::max<ssize_t>(count, 0)));
  uint64_t pages[3] = {};  // Size, resident, shared.
  for (uint64_t& field : pages) {
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), field);
    if (error != std::errc{}) return 0;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return (pages[1] - std::min(pages[1], pages[2])) * page;
}

}  // namespace

FreedMemory::Sample FreedMemory::Look() {
  return {Read(CLOCK_MONOTONIC), Read(CLOCK_PROCESS_CPUTIME_ID),
          ResidentBytes()};
}

FreedMemory::Action FreedMemory::Check(const Sample& sample) {
  bool is_idle = false;
  if (const auto passed = sample.now - window_now_; passed >= kIdleInterval) {
    const auto used = static_cast<double>((sample.cpu - window_cpu_).count());
    is_idle = used < kIdleShare * static_cast<double>(passed.count());
    window_now_ = sample.now;
    window_cpu_ = sample.cpu;
  }
  if (is_idle && sample.cpu - given_back_cpu_ >= kWorkMin) {
    given_back_cpu_ = sample.cpu;
    return Action::kGiveBack;
  }
  const bool is_much = sample.resident_bytes > trimmed_bytes_ + kKeptBytesMax;
  return is_much ? Action::kTrim : Action::kNone;
}

}  // namespace msitd::server
