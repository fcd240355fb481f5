// SPDX-License-Identifier: Apache-2.0
// libmsit_acl_feed.so: the library that the shim loads when there is a dump.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

#include "client/foreign/acl/dump_writer.h"
#include "client/foreign/acl/feed_abi.h"
#include "client/foreign/acl/reporter.h"
#include "client/foreign/acl/settings.h"
#include "client/foreign/acl/slice_table.h"
#include "client/libmsit/capi/transport_library.h"
#include "client/libmsit/core/fork_guard.h"
#include "protos/status/status.h"

namespace msitd::acl {
namespace {

// A daemon that takes longer to start is still used once it answers.
constexpr std::chrono::seconds kDaemonStartMax{5};

// The feed of one process. It is never destroyed, because threads of CANN may
// call it while the process ends, and a forked child cannot destroy it.
class Feed {
 public:
  explicit Feed(const Settings& settings)
      : table_({.memory_bytes_max = settings.memory_bytes_max,
                .overflow = settings.overflow,
                .max_block = settings.max_block},
               [this](std::string_view why, std::string_view file) {
                 reporter_.Say(why, file);
               }),
        writer_(settings, table_, reporter_) {}

  void Take(const AclDumpChunk& chunk, int32_t length) {
    constexpr size_t kHeadBytes = offsetof(AclDumpChunk, bytes);
    const size_t size = length < 0 ? 0 : static_cast<size_t>(length);
    const size_t path_room = std::min(size, sizeof(chunk.file_name));
    const size_t path_size = ::strnlen(chunk.file_name, path_room);
    const bool has_path = path_size > 0 && path_size < path_room;
    if (!has_path || size < kHeadBytes ||
        chunk.byte_count > size - kHeadBytes || chunk.offset < kAclAppend) {
      // Slices that are appended later would close the gap unnoticed.
      table_.Lose({chunk.file_name, has_path ? path_size : 0},
                  "CANN sent an invalid slice");
      return;
    }
    Slice slice{.file = {chunk.file_name, path_size},
                .offset = {},
                .bytes = std::as_bytes(
                    std::span(chunk.bytes, size_t{chunk.byte_count})),
                .is_last = chunk.is_last != 0};
    if (chunk.offset != kAclAppend) {
      slice.offset = static_cast<uint64_t>(chunk.offset);
    }
    table_.Put(slice);
  }

  void Flush() {
    if (!fork_guard_.in_child()) writer_.Flush();
  }
  void Stop() {
    if (!fork_guard_.in_child()) writer_.Stop();
  }
  bool in_child() const { return fork_guard_.in_child(); }

 private:
  const libmsit::ForkGuard fork_guard_;
  Reporter reporter_;
  SliceTable table_;
  DumpWriter writer_;
};

// Start stores it with release semantics; callbacks load it with acquire
// semantics.
std::atomic<Feed*> g_feed{nullptr};

// Runs `body` and reports exceptions instead of throwing them.
template <typename Body>
void Guarded(Body body) noexcept {
  try {
    body();
  } catch (const std::exception& error) {
    try {
      Reporter().Say(error.what(), "");
    } catch (const std::exception&) {
      // Printing may also fail for lack of memory.
    }
  }
}

Feed* OwnFeed() {
  Feed* const feed = g_feed.load(std::memory_order_acquire);
  return feed == nullptr || feed->in_child() ? nullptr : feed;
}

void StopAtExit() {
  Guarded([] {
    if (Feed* const feed = OwnFeed(); feed != nullptr) feed->Stop();
  });
}

int32_t Start() {
  bool is_started = false;
  Guarded([&is_started] {
    auto settings = ReadSettings();
    if (!settings.ok()) {
      Reporter().Say(Message(settings.status()), "");
      return;
    }
    const libmsit::Status found =
        libmsit::FindDaemon("", kDaemonStartMax, {}, &settings->endpoint);
    if (!found.ok()) {
      Reporter().Say(found.message, "");
      return;
    }
    // Anything that the transport loads is loaded before StopAtExit is
    // registered, and so outlives it.
    std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer> transport;
    const libmsit::Status made =
        libmsit::MakeTransport(settings->endpoint, &transport);
    if (!made.ok()) {
      Reporter().Say(made.message, "");
      return;
    }
    // A forked child has inherited the registration of its parent.
    const bool is_first = g_feed.load(std::memory_order_relaxed) == nullptr;
    g_feed.store(new Feed(*settings), std::memory_order_release);
    is_started = !is_first || std::atexit(&StopAtExit) == 0;
  });
  return is_started ? 0 : 1;
}

int32_t Take(const AclDumpChunk* chunk, int32_t length) {
  Guarded([chunk, length] {
    Feed* const feed = OwnFeed();
    if (feed != nullptr && chunk != nullptr) feed->Take(*chunk, length);
  });
  return kAclSuccess;
}

void Flush() {
  Guarded([] {
    if (Feed* const feed = OwnFeed(); feed != nullptr) feed->Flush();
  });
}

constexpr FeedFunctions kFunctions = {&Start, &Take, &Flush};

}  // namespace
}  // namespace msitd::acl

extern "C" __attribute__((visibility("default")))
const msitd::acl::FeedFunctions*
msit_acl_feed_v1() {
  return &msitd::acl::kFunctions;
}
