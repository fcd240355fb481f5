// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/libmsit/core/client_options.h"
#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/core/filter/record_filter.h"
#include "client/libmsit/core/fork_guard.h"
#include "client/libmsit/core/outgoing_chunks.h"
#include "client/libmsit/core/recorder.h"
#include "client/libmsit/core/recording_time.h"
#include "client/libmsit/core/reservation.h"
#include "client/libmsit/core/status.h"
#include "client/libmsit/core/stream_sender.h"
#include "client/libmsit/core/stream_tokens.h"
#include "client/libmsit/core/tensor_view.h"
#include "protos/capture/capture_policy.h"

namespace msitd::libmsit {

// Records tensors of one rank of one run. Implements the contract of msit.h.
//
// The problem: a recorder runs inside a training or inference process. It must
// not stall that process, even if the daemon or the disk stops responding, yet
// it should lose nothing that there is time to save. The host may be killed,
// fork, or handle signals at any time.
//
// The choices: writing each tensor synchronously would couple the host to the
// disk. An unbounded queue would never wait, but would take the host's memory
// as soon as the daemon falls behind. So the client copies each record into
// bounded memory and returns. The host chooses the behavior when that memory is
// full (Overflow): wait for a bounded time, drop the newest records or the
// oldest token, or keep summaries. Every loss is counted.
//
//   Recorder: filter, number the call, find a place  (recording thread, locked)
//     -> copy the bytes into the slot                (recording thread)
//   StreamSender: seal, send, reopen after a failure (sender thread, locked)
//     -> acknowledged: release the slot              (transport's thread,
//     locked)
//
// OutgoingChunks connects the two and owns the lock. The recorder calls the
// sender, never the other way around.
//
// Two decisions keep the host fast. First, one mutex protects all state, but it
// is held only to find a place; copies run in parallel without it, and the
// filter decides without any lock that a record is not requested. Second, slots
// are pieces of the memory shared with the daemon, if there is any, so the copy
// made by Record is the only one on this side, and the daemon can recover
// complete records if the process is killed.
//
// The costs: one copy per record and one sender thread per client. Memory for
// the slots is used even while the host is idle. A chunk that is not
// acknowledged keeps its slot and is sent again after a reconnect, so a daemon
// that stops accepting chunks eventually causes the overflow strategy to take
// effect.
//
// Throws std::bad_alloc or std::system_error if the system has no memory or
// threads left; the C interface catches both. Thread-safe.
class Client final {
 public:
  // Opens a client. Waits for the daemon for at most `options.open_timeout`; 0:
  // does not wait.
  //
  // Errors: INVALID_ARGUMENT, UNAVAILABLE, REFUSED, INTERRUPTED.
  static Status Open(ClientOptions options,
                     std::unique_ptr<Transport, TransportDestroyer> transport,
                     std::unique_ptr<Client>* client);

  // Closes with a timeout of 0. In a forked child the object must be leaked
  // instead of destroyed.
  ~Client();

  // Records a tensor. If its source fails, the record is not accepted and is
  // not visible anywhere. Some parts of a tensor with several parts may have
  // been sent by then, and it counts as truncated; a smaller one is not
  // counted. The result is DROPPED in both cases. Each part of a source may
  // wait for `max_block`.
  Status Record(const TensorView& tensor);

  // See msit_reserve; `tensor.comes_later` must be true. Sets no reservation if
  // there is nothing to copy. The caller must end the reservation with Publish
  // while the client exists.
  Status Reserve(const TensorView& tensor,
                 std::unique_ptr<Reservation>* reservation);
  // See msit_publish.
  Status Publish(const Reservation& reservation, bool is_filled);
  // See msit_memory.
  std::vector<std::span<std::byte>> Memory() const;

  // See msit_enter and msit_leave. Record, Reserve and BeginCall are counted
  // anyway, records that are off by samples.
  void Enter() { recording_time_.Enter(); }
  void Leave() { recording_time_.Leave(); }

  // Counts a record as dropped after Record or Reserve has thrown.
  void CountDrop();

  // See msit_selects.
  bool Selects(int64_t token, std::string_view op, Io io);

  // See msit_level_of. An empty `device` stands for the client's device.
  capture::Level LevelAt(std::string_view device, int64_t token,
                         std::string_view op, Io io);

  // See msit_selection.
  uint64_t SelectionAt(int64_t token);

  int64_t token() const { return tokens_.current(); }
  // See msit_token_reference and msit_token_number.
  int64_t TokenReference() const { return tokens_.Reference(); }
  int64_t TokenNumber(int64_t token) const { return tokens_.NumberOf(token); }
  int64_t NextToken() { return tokens_.Next(); }
  Status SetToken(int64_t token) { return tokens_.Set(token); }
  Status BeginCall(int64_t token, std::string_view op, int32_t* call);

  Status Flush(std::chrono::microseconds timeout);

  // Seals the records so far, and returns a mark after them, without waiting.
  // HasDelivered returns whether everything before a mark is acknowledged or
  // dropped.
  uint64_t Mark();
  bool HasDelivered(uint64_t mark) const;

  Status Close(std::chrono::microseconds timeout);

  ClientCounters counters() const;
  std::string stream_error() const;
  std::string run() const;
  bool in_forked_child() const { return fork_guard_.in_child(); }

 private:
  Client(ClientOptions options,
         std::unique_ptr<Transport, TransportDestroyer> transport);

  Status WaitUntilOpen();
  Status ClosedOrForked() const;
  // Counts a record that a forked child of the process makes.
  Status DropInChild();
  // Converts a token of a query to the number of a token. Records that the
  // token has begun if its number is known.
  int64_t TokenToAsk(int64_t token);

  const ForkGuard fork_guard_;
  const ClientOptions options_;
  const StreamSender::Stream stream_;
  // Destroyed after the memory that it borrows.
  const std::unique_ptr<Transport, TransportDestroyer> transport_;
  // Independent of all other state, therefore relaxed everywhere.
  std::atomic<uint64_t> dropped_in_child_{0};
  RecordingTime recording_time_;
  StreamTokens tokens_;
  // Has a lock of its own, which may be acquired while that of the chunks is
  // held.
  RecordFilter filter_;
  OutgoingChunks chunks_;
  StreamSender sender_;
  Recorder recorder_;
};

}  // namespace msitd::libmsit
