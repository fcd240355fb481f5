// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/client.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "client/libmsit/core/delivery/memory_share.h"
#include "client/libmsit/core/delivery/slot_pool.h"
#include "client/libmsit/core/delivery/step_room.h"
#include "client/libmsit/core/interruptible_wait.h"
#include "client/libmsit/core/launch.h"
#include "client/libmsit/core/overflow.h"
#include "protos/base/limits.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/compute/digest.h"

namespace msitd::libmsit {
namespace {

// The selection number in a forked child. No policy has this number.
constexpr uint64_t kNothingSelected = ~uint64_t{0};

// One chunk is filled while another is sent.
constexpr uint64_t kSlotsMin = 2;

// Minimum and maximum memory of a client that determines its own need.
constexpr uint64_t kAutoBytesMin = uint64_t{64} << 20;
constexpr uint64_t kAutoBytesMax = uint64_t{1} << 30;

// Returns the size of the memory, rounded to whole slots.
uint64_t BufferBytes(const ClientOptions& options) {
  uint64_t bytes = options.buffer_bytes;
  if (bytes == kBufferAuto) {
    const uint64_t share =
        options.auto_bytes_max != 0 ? options.auto_bytes_max : MemoryShare();
    bytes = std::clamp(share, kAutoBytesMin, kAutoBytesMax);
  }
  return std::max(bytes / chunk::ChunkBuilder::kBufferBytes, kSlotsMin) *
         chunk::ChunkBuilder::kBufferBytes;
}

SlotPool MakePool(const ClientOptions& options, uint64_t buffer_bytes) {
  const size_t most = buffer_bytes / chunk::ChunkBuilder::kBufferBytes;
  if (options.buffer_bytes != kBufferAuto) return SlotPool(most);
  const size_t least = kAutoBytesMin / chunk::ChunkBuilder::kBufferBytes;
  return SlotPool(StepRoom(least, most));
}

// Time limit for the daemon to end a stream properly.
constexpr std::chrono::milliseconds kFinishTimeout{1'000};

Status CheckOptions(const ClientOptions& options) {
  Status status = CheckName("run", options.run, kRunNameBytesMax, false);
  if (status.ok()) {
    status = CheckName("device", options.device, kDeviceBytesMax, false);
  }
  if (status.ok())
    status = CheckName("user_agent", options.user_agent, 256, true);
  if (!status.ok()) return status;
  if (options.world_size < 1 || options.world_size - 1 > kRankMax) {
    return InvalidArgument("world_size " + std::to_string(options.world_size) +
                           " is not in 1.." + std::to_string(kRankMax + 1));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    return InvalidArgument("rank " + std::to_string(options.rank) +
                           " is not in 0.." +
                           std::to_string(options.world_size - 1));
  }
  if (options.max_block.count() < 0 || options.linger.count() < 0 ||
      options.open_timeout.count() < 0) {
    return InvalidArgument("a time is negative");
  }
  if (options.if_exists == IfExists::kNew &&
      options.open_timeout.count() == 0) {
    return InvalidArgument(
        "the daemon chooses the name of a new run: if_exists new requires an "
        "open_timeout");
  }
  if (options.job.size() > kJobBytesMax) {
    return InvalidArgument("job has more than " + std::to_string(kJobBytesMax) +
                           " bytes");
  }
  return {};
}

// Saturates, so that the longest timeout does not overflow.
std::chrono::steady_clock::time_point After(std::chrono::microseconds time) {
  constexpr std::chrono::hours kLongest{24 * 365};
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::microseconds>(time, kLongest);
}

}  // namespace

Status Client::Open(ClientOptions options,
                    std::unique_ptr<Transport, TransportDestroyer> transport,
                    std::unique_ptr<Client>* client) {
  Status status = CheckOptions(options);
  if (!status.ok()) return status;
  std::unique_ptr<Client> made(
      new Client(std::move(options), std::move(transport)));
  made->sender_.Start();
  if (made->options_.open_timeout.count() > 0) {
    status = made->WaitUntilOpen();
    if (!status.ok()) return status;
  }
  *client = std::move(made);
  return {};
}

Client::Client(ClientOptions options,
               std::unique_ptr<Transport, TransportDestroyer> transport)
    : options_(std::move(options)),
      stream_{.stream_id = NewStreamId(),
              .buffer_bytes = BufferBytes(options_)},
      transport_(std::move(transport)),
      tokens_(options_.if_exists == IfExists::kAppend,
              options_.if_exists == IfExists::kAppend &&
                  options_.open_timeout.count() == 0),
      chunks_({options_.run, options_.rank, stream_.stream_id},
              Overflow(options_.overflow, options_.max_block),
              MakePool(options_, stream_.buffer_bytes)),
      sender_(options_, stream_, chunks_, tokens_, filter_, recording_time_,
              *transport_),
      recorder_(options_, chunks_, tokens_, filter_, sender_) {
  // Reads the environment, which must happen only in a call like this one.
  (void)compute::SimdTargetName();
}

Client::~Client() { Close(std::chrono::microseconds(0)); }

Status Client::WaitUntilOpen() {
  const auto deadline = After(options_.open_timeout);
  InterruptibleWait wait(options_.interrupt);
  auto result = InterruptibleWait::Result::kWoken;
  OutgoingChunks::Lock lock(chunks_.mu());
  while (!sender_.status().was_open && !sender_.is_over() &&
         result == InterruptibleWait::Result::kWoken) {
    result = wait.Until(chunks_.progress(), deadline, lock);
  }
  if (result == InterruptibleWait::Result::kInterrupted) return Interrupted();
  if (sender_.status().was_refused)
    return {MSIT_ERROR_REFUSED, sender_.status().error};
  if (sender_.status().was_open) return {};
  return {MSIT_ERROR_UNAVAILABLE, sender_.status().error.empty()
                                      ? "the daemon does not answer"
                                      : sender_.status().error};
}

Status Client::ClosedOrForked() const {
  if (fork_guard_.in_child()) {
    return {MSIT_ERROR_FORKED, "the client belongs to the parent process"};
  }
  return Closed();
}

Status Client::DropInChild() {
  dropped_in_child_.fetch_add(1, std::memory_order_relaxed);
  return ClosedOrForked();
}

Status Client::Record(const TensorView& tensor) {
  ShortCallScope scope(recording_time_);
  if (fork_guard_.in_child()) return DropInChild();
  return recorder_.Record(tensor, nullptr, scope);
}

Status Client::Reserve(const TensorView& tensor,
                       std::unique_ptr<Reservation>* reservation) {
  ShortCallScope scope(recording_time_);
  if (fork_guard_.in_child()) return DropInChild();
  return recorder_.Record(tensor, reservation, scope);
}

Status Client::Publish(const Reservation& reservation, bool is_filled) {
  if (fork_guard_.in_child()) return ClosedOrForked();
  return recorder_.Publish(reservation, is_filled);
}

std::vector<std::span<std::byte>> Client::Memory() const {
  std::vector<std::span<std::byte>> memory;
  if (fork_guard_.in_child()) return memory;
  const std::lock_guard lock(chunks_.mu());
  for (const auto piece :
       {chunks_.shared_memory(), recorder_.scratch_memory()}) {
    if (!piece.empty()) memory.push_back(piece);
  }
  return memory;
}

void Client::CountDrop() { recorder_.CountDrop(); }

Status Client::BeginCall(int64_t token, std::string_view op, int32_t* call) {
  const RecordingScope scope(recording_time_);
  if (fork_guard_.in_child()) return ClosedOrForked();
  return recorder_.BeginCall(token, op, call);
}

int64_t Client::TokenToAsk(int64_t token) {
  const std::optional<int64_t> counted = tokens_.CountedIfKnown(token);
  if (counted) sender_.Begin(*counted);
  return counted.value_or(token) + tokens_.base();
}

bool Client::Selects(int64_t token, std::string_view op, Io io) {
  if (fork_guard_.in_child()) return false;
  return filter_.MayRecord(TokenToAsk(token), op, io);
}

capture::Level Client::LevelAt(std::string_view device, int64_t token,
                               std::string_view op, Io io) {
  if (fork_guard_.in_child()) return capture::Level::kOff;
  return filter_.LevelAt(device.empty() ? options_.device : device,
                         TokenToAsk(token), op, io);
}

uint64_t Client::SelectionAt(int64_t token) {
  if (fork_guard_.in_child()) return kNothingSelected;
  return filter_.SelectionAt(TokenToAsk(token));
}

Status Client::Flush(std::chrono::microseconds timeout) {
  if (timeout.count() < 0) return InvalidArgument("timeout_us is negative");
  if (fork_guard_.in_child()) return ClosedOrForked();
  const auto deadline = After(timeout);
  OutgoingChunks::Lock lock(chunks_.mu());
  if (recorder_.is_closing()) return Closed();
  InterruptibleWait wait(options_.interrupt);
  const std::optional<bool> delivered =
      chunks_.AwaitDelivery(deadline, wait, lock);
  if (!delivered) return Interrupted();
  if (sender_.status().was_refused)
    return {MSIT_ERROR_REFUSED, sender_.status().error};
  if (*delivered) return {};
  return {MSIT_ERROR_TIMEOUT, sender_.status().error.empty()
                                  ? "the daemon did not acknowledge in time"
                                  : sender_.status().error};
}

uint64_t Client::Mark() {
  if (fork_guard_.in_child()) return 0;
  const std::lock_guard lock(chunks_.mu());
  chunks_.Seal();
  chunks_.work().notify_one();
  return chunks_.pushed_count();
}

bool Client::HasDelivered(uint64_t mark) const {
  if (fork_guard_.in_child()) return false;
  const std::lock_guard lock(chunks_.mu());
  return chunks_.HaveLeft(mark);
}

Status Client::Close(std::chrono::microseconds timeout) {
  if (timeout.count() < 0) return InvalidArgument("timeout_us is negative");
  if (fork_guard_.in_child()) return ClosedOrForked();
  const auto deadline = After(timeout);
  OutgoingChunks::Lock lock(chunks_.mu());
  if (recorder_.is_closing()) return {};
  InterruptibleWait wait(options_.interrupt);
  recorder_.Close(lock);
  // Open reservations hold back the records after them, so they get half of the
  // time, and all other records the other half.
  const auto begin = std::chrono::steady_clock::now();
  bool is_interrupted = !recorder_.WaitForReservations(
      begin + (deadline - begin) / 2, wait, lock);
  const bool has_withdrawn = recorder_.WithdrawOpenReservations();
  bool is_delivered = false;
  if (!is_interrupted) {
    const std::optional<bool> delivered =
        chunks_.AwaitDelivery(deadline, wait, lock);
    is_interrupted = !delivered.has_value();
    is_delivered = delivered.value_or(false);
  }
  chunks_.Seal();
  const auto now = std::chrono::steady_clock::now();
  const bool has_finished =
      sender_.Stop(is_delivered ? now + kFinishTimeout : now, wait, lock);
  if (is_interrupted || !has_finished) return Interrupted();
  if (sender_.status().was_refused)
    return {MSIT_ERROR_REFUSED, sender_.status().error};
  if (has_withdrawn) {
    return {MSIT_ERROR_TIMEOUT, "reservations were still open"};
  }
  if (is_delivered) return {};
  return {MSIT_ERROR_TIMEOUT, "not everything was acknowledged in time"};
}

ClientCounters Client::counters() const {
  ClientCounters counters;
  if (fork_guard_.in_child()) {
    counters.dropped_count = dropped_in_child_.load(std::memory_order_relaxed);
    return counters;
  }
  const std::lock_guard lock(chunks_.mu());
  const DeliveryLedger& ledger = chunks_.ledger();
  counters.recorded_count = ledger.recorded_count();
  counters.recorded_bytes = ledger.recorded_bytes();
  counters.acknowledged_count = ledger.acknowledged_count();
  counters.acknowledged_bytes = ledger.acknowledged_bytes();
  counters.dropped_count = ledger.coverage().dropped_count;
  counters.truncated_count = ledger.coverage().truncated_count;
  counters.invalid_count = ledger.invalid_count();
  counters.filtered_count = filter_.filtered_count();
  counters.refused_chunk_count = sender_.status().refused_chunk_count;
  counters.reconnect_count = sender_.status().reconnect_count;
  counters.degraded_count = ledger.coverage().degraded_count;
  counters.conflict_count = sender_.conflict_count();
  counters.aliased_count = ledger.aliased_count();
  counters.aliased_bytes = ledger.aliased_bytes();
  const RecordingTime::Times times = recording_time_.Read();
  counters.recording_ns = times.recording_ns;
  counters.open_ns = times.open_ns;
  return counters;
}

std::string Client::run() const {
  if (fork_guard_.in_child()) return options_.run;
  const std::lock_guard lock(chunks_.mu());
  return sender_.status().run;
}

std::string Client::stream_error() const {
  if (fork_guard_.in_child()) return ClosedOrForked().message;
  const std::lock_guard lock(chunks_.mu());
  return sender_.status().error;
}

}  // namespace msitd::libmsit
