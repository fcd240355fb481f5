// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/remains.h"

#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "client/libmsit/core/signals_blocked.h"
#include "protos/os/thread.h"

namespace msitd::libmsit {
namespace {

// gRPC usually releases everything sooner, unless the daemon or the network
// hangs.
constexpr std::chrono::milliseconds kMoment{50};

// Shared by the thread that frees and the thread that waits for it.
struct Freed {
  std::mutex mu;
  std::condition_variable changed;
  bool is_done = false;  // Guarded by mu.
};

void Free(Remains& remains) {
  for (auto& stream : remains.streams) {
    stream->WaitUntilDone();
    stream.reset();
  }
  // Chunks on their way into the socket belong to the connection, which ends
  // with the channel. The channel must not be freed on a thread of gRPC, which
  // would wait for itself.
  remains.channel.reset();
  remains.lent->WaitUntilEmpty();
  for (const std::span<std::byte> mapping : remains.mappings) {
    ::munmap(mapping.data(), mapping.size());
  }
}

}  // namespace

void FreeInTime(std::unique_ptr<Remains> remains) noexcept {
  Remains* const left = remains.release();
  try {
    const auto freed = std::make_shared<Freed>();
    {
      const SignalsBlocked blocked;
      StartThread("msit-remains", [left, freed] {
        Free(*left);
        delete left;
        const std::lock_guard lock(freed->mu);
        freed->is_done = true;
        freed->changed.notify_all();
      }).detach();
    }
    std::unique_lock lock(freed->mu);
    freed->changed.wait_for(lock, kMoment, [&] { return freed->is_done; });
  } catch (const std::exception&) {
    // The remains are leaked.
  }
}

}  // namespace msitd::libmsit
