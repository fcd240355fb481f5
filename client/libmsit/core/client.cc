// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/client.h"

#include <algorithm>
#include <utility>

#include "client/libmsit/core/delivery/memory_share.h"
#include "client/libmsit/core/launch.h"
#include "client/libmsit/core/record_text.h"
#include "client/libmsit/core/signals_blocked.h"
#include "protos/base/limits.h"
#include "protos/compute/digest.h"
#include "protos/os/thread.h"

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

// For waits without a deadline. Condition variables may convert a time to the
// system clock, where the maximum time would overflow.
constexpr std::chrono::hours kFarAway{1};

// Saturates, so that the longest timeout does not overflow.
std::chrono::steady_clock::time_point After(std::chrono::microseconds time) {
  constexpr std::chrono::hours kLongest{24 * 365};
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::microseconds>(time, kLongest);
}

// Returns whether a tensor gets the same key as a record of its token.
bool IsSameRecord(const AliasTable::Original& record, const TensorView& tensor,
                  int32_t call) {
  return record.call == call && record.io == tensor.io &&
         record.op == tensor.op && record.index == tensor.index;
}

// Returns the description of a tensor without its texts and its position in the
// stream.
chunk::RecordSpec SpecOf(const TensorView& tensor, int64_t token, int32_t call,
                         uint64_t tensor_bytes) {
  return {.device = tensor.device,
          .token = token,
          .op = tensor.op,
          .call = call,
          .io = tensor.io,
          .index = tensor.index,
          .dtype = tensor.dtype,
          .dims = tensor.dims,
          .tensor_bytes = tensor_bytes,
          .part_offset = 0,
          .part_bytes = 0,
          .placement = tensor.placement,
          .kind = tensor.kind,
          .requires_grad = tensor.requires_grad};
}

}  // namespace

Status Client::Open(ClientOptions options,
                    std::unique_ptr<Transport, TransportDestroyer> transport,
                    std::unique_ptr<Client>* client) {
  Status status = CheckOptions(options);
  if (!status.ok()) return status;
  std::unique_ptr<Client> made(
      new Client(std::move(options), std::move(transport)));
  made->StartSender();
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
      recorded_rank_{.endpoint = options_.endpoint,
                     .launch = options_.job.empty()
                                   ? LaunchOf(options_.world_size)
                                   : options_.job,
                     .run = options_.run,
                     .rank = options_.rank},
      recording_(NextRecording(recorded_rank_)),
      job_(JobOf(recorded_rank_.launch, recording_)),
      stream_id_(NewStreamId()),
      buffer_bytes_(BufferBytes(options_)),
      transport_(std::move(transport)),
      has_late_base_(options_.if_exists == IfExists::kAppend &&
                     options_.open_timeout.count() == 0),
      token_base_(options_.if_exists == IfExists::kAppend ? kBaseUnknown : 0),
      run_(options_.run),
      pool_(MakePool(options_, buffer_bytes_)),
      chunker_({options_.run, options_.rank, stream_id_},
               options_.overflow == OverflowMode::kDropOldestToken, pool_,
               queue_),
      overflow_(options_.overflow, options_.max_block),
      backoff_(options_.backoff_min) {
  // Reads the environment, which must happen only in a call like this one.
  (void)compute::SimdTargetName();
}

Client::~Client() { Close(std::chrono::microseconds(0)); }

void Client::StartSender() {
  const SignalsBlocked blocked;
  sender_ = StartThread("msit-sender", [this] { RunSender(); });
}

Status Client::WaitUntilOpen() {
  const auto deadline = After(options_.open_timeout);
  InterruptibleWait wait(options_.interrupt);
  auto result = InterruptibleWait::Result::kWoken;
  Lock lock(mu_);
  while (!was_open_ && state_ != StreamState::kOver &&
         result == InterruptibleWait::Result::kWoken) {
    result = wait.Until(progress_, deadline, lock);
  }
  if (result == InterruptibleWait::Result::kInterrupted) return Interrupted();
  if (was_refused_) return {MSIT_ERROR_REFUSED, stream_error_};
  if (was_open_) return {};
  return {MSIT_ERROR_UNAVAILABLE,
          stream_error_.empty() ? "the daemon does not answer" : stream_error_};
}

Status Client::ClosedOrForked() const {
  if (fork_guard_.in_child()) {
    return {MSIT_ERROR_FORKED, "the client belongs to the parent process"};
  }
  return {MSIT_ERROR_CLOSED, "the client is closed"};
}

Status Client::BeginCall(int64_t token, std::string_view op, int32_t* call) {
  if (fork_guard_.in_child()) return ClosedOrForked();
  Status status = CheckName("op", op, kOpBytesMax, false);
  if (!status.ok()) return status;
  const int64_t named = TokenNumber(token);
  if (named < 0 || named > kTokenMax) {
    return InvalidArgument("token " + std::to_string(named) + " is not in 0.." +
                           std::to_string(kTokenMax));
  }
  const int64_t counted = Counted(token);
  Lock lock(mu_);
  const std::optional<int32_t> next = call_counter_.Next(counted, op);
  if (!next) return {MSIT_ERROR_NO_MEMORY, "too many ops in one token"};
  *call = *next;
  return {};
}

std::optional<int32_t> Client::NumberCall(const TensorView& tensor,
                                          int64_t token) {
  // Ops and indices do not contain NUL, so these names differ from each other
  // and from those of BeginCall.
  std::string name(tensor.op);
  name += '\0';
  name += static_cast<char>(tensor.io);
  name += tensor.index;
  name += '\0';
  name += tensor.device;
  return call_counter_.Next(token, name);
}

bool Client::Selects(int64_t token, std::string_view op, Io io) {
  if (fork_guard_.in_child()) return false;
  token = CountedToAsk(token);
  return filter_.MayRecord(token + TokenBase(), op, io);
}

capture::Level Client::LevelAt(std::string_view device, int64_t token,
                               std::string_view op, Io io) {
  if (fork_guard_.in_child()) return capture::Level::kOff;
  token = CountedToAsk(token);
  return filter_.LevelAt(device.empty() ? options_.device : device,
                         token + TokenBase(), op, io);
}

uint64_t Client::SelectionAt(int64_t token) {
  if (fork_guard_.in_child()) return kNothingSelected;
  token = CountedToAsk(token);
  return filter_.SelectionAt(token + TokenBase());
}

capture::Level Client::TakeLevel(const TensorView& tensor,
                                 std::string_view device, int64_t token) {
  const capture::Level level =
      filter_.Take(device, token + TokenBase(), tensor.op, tensor.io);
  if (level == capture::Level::kOff && filter_.TakeWatch()) {
    // Only this wakes the sender to report. The lock ensures that the sender
    // either waits already or will read the counts again.
    const Lock lock(mu_);
    work_.notify_one();
  }
  return level;
}

Status Client::Record(const TensorView& tensor) {
  const RecordingScope scope(recording_time_);
  return Take(tensor, nullptr);
}

Status Client::Take(const TensorView& tensor,
                    std::unique_ptr<Reservation>* reservation) {
  if (fork_guard_.in_child()) {
    dropped_in_child_.fetch_add(1, std::memory_order_relaxed);
    return ClosedOrForked();
  }
  const std::string_view device =
      tensor.device.empty() ? options_.device : tensor.device;
  const bool is_token_fixed = IsTokenFixed(tensor);
  const int64_t token = is_token_fixed ? tensor.token : Counted(tensor.token);
  if (!is_token_fixed) Begin(token);
  const capture::Level level = tensor.kind == RecordKind::kDocument
                                   ? capture::Level::kFull
                                   : TakeLevel(tensor, device, token);
  if (level == capture::Level::kOff) return {};
  TensorView complete = tensor;
  complete.device = device;
  CompleteForKind(complete);
  return TakeAt(level, complete, token, reservation);
}

Client::Plan Client::TakePlan(capture::Level level, const TensorView& tensor,
                              int64_t token) {
  // Values are small, and a document must be complete.
  if (tensor.kind != RecordKind::kTensor) {
    return {.kept = {.level = level, .is_token_fixed = IsTokenFixed(tensor)}};
  }
  // After a conflict, an original in the run may have other bytes.
  const bool may_alias = former_conflict_count_ + conflict_count_ == 0;
  Plan plan;
  plan.withdrawal_count = withdrawal_count_;
  if (may_alias) {
    plan.original = aliases_.Find(tensor, token, tensor.call, level);
  }
  if (!plan.original) {
    plan.kept = TakeKeptLevel(level);
    if (!plan.kept.is_degraded || !may_alias) return plan;
    plan.original = aliases_.Find(tensor, token, tensor.call, plan.kept.level);
  }
  if (plan.original) plan.kept.level = plan.original->level;
  return plan;
}

Status Client::TakeAt(capture::Level level, const TensorView& tensor,
                      int64_t token,
                      std::unique_ptr<Reservation>* reservation) {
  uint64_t tensor_bytes = 0;
  Status status = CheckTensor(tensor, &tensor_bytes);
  if (status.ok() && !IsTokenFixed(tensor) && token + TokenBase() > kTokenMax) {
    status = InvalidArgument("the current token is over its limit");
  }
  Lock lock(mu_);
  if (!status.ok()) {
    ledger_.CountInvalid();
    return status;
  }
  if (reservation != nullptr && !MayReserve(tensor_bytes)) {
    return {MSIT_ERROR_TOO_LARGE,
            "the client does not have enough memory to reserve for the tensor"};
  }
  Plan plan = TakePlan(level, tensor, token);
  const bool needs_original = tensor.data == nullptr &&
                              tensor.source == nullptr && !tensor.comes_later &&
                              tensor_bytes != 0;
  const auto unknown = []() -> Status {
    return {MSIT_ERROR_UNKNOWN_IDENTITY,
            "no record of this token has the identity"};
  };
  if (needs_original && !plan.original) return unknown();
  int32_t call = tensor.call;
  if (call == MSIT_CALL_AUTO) {
    const std::optional<int32_t> next = NumberCall(tensor, token);
    if (!next) {
      ledger_.Drop();
      WakeInTime();
      return {MSIT_ERROR_NO_MEMORY, "too many ops in one token"};
    }
    call = *next;
  }
  // If the calls of an op are numbered in both ways, a record may have the same
  // call number as its original. Daemons reject an alias of itself.
  if (plan.original && IsSameRecord(*plan.original, tensor, call)) {
    if (needs_original) return unknown();
    plan = {.kept = TakeKeptLevel(level)};
  }
  std::string value;
  std::string stack;
  chunk::RecordSpec part = SpecOf(tensor, token, call, tensor_bytes);
  part.sequence = next_sequence_++;
  part.stack = FitStack(tensor.stack, stack);
  if (HasValueText(tensor.kind)) part.value = FitValue(tensor.value, value);
  if (plan.original) part.alias = plan.original->AsSpec();
  if (chunk::VersionFor(part) > chunk_version_) return LeaveOut(part);
  const bool is_reserved =
      reservation != nullptr && !plan.original && tensor_bytes != 0;
  status = is_reserved
               ? ReserveParts(tensor, plan.kept, part, reservation, lock)
               : RecordParts(tensor, plan, part, lock);
  if (status.ok() && !plan.original && tensor_bytes != 0 &&
      tensor.kind == RecordKind::kTensor && !ledger_.IsBroken(part.sequence)) {
    aliases_.Add(tensor, part, plan.kept.level);
  }
  return status;
}

Status Client::LeaveOut(const chunk::RecordSpec& record) {
  ledger_.Drop();
  WakeInTime();
  std::string why = "the daemon is too old for records of kind ";
  why += RecordKindName(record.kind);
  why += ": it accepts chunks up to version " + std::to_string(chunk_version_);
  if (stream_error_.empty()) stream_error_ = why;
  return {MSIT_ERROR_DROPPED, std::move(why)};
}

void Client::CountDrop() {
  const Lock lock(mu_);
  ledger_.Drop();
  WakeInTime();
}

std::optional<bool> Client::WaitForDelivery(Clock::time_point deadline,
                                            InterruptibleWait& wait,
                                            Lock& lock) {
  chunker_.Seal();
  const uint64_t goal = queue_.pushed_count();
  work_.notify_one();
  while (!queue_.HaveLeft(goal)) {
    switch (wait.Until(progress_, deadline, lock)) {
      case InterruptibleWait::Result::kWoken:
        break;
      case InterruptibleWait::Result::kTimeout:
        return queue_.HaveLeft(goal);
      case InterruptibleWait::Result::kInterrupted:
        return std::nullopt;
    }
  }
  return true;
}

bool Client::WaitForReservations(Clock::time_point deadline,
                                 InterruptibleWait& wait, Lock& lock) {
  auto result = InterruptibleWait::Result::kWoken;
  while (!open_reservations_.empty() && !is_sender_over_ &&
         result == InterruptibleWait::Result::kWoken) {
    chunker_.Seal();
    work_.notify_one();
    result = wait.Until(progress_, deadline, lock);
  }
  return result != InterruptibleWait::Result::kInterrupted;
}

bool Client::StopSender(Clock::time_point deadline, InterruptibleWait& wait,
                        Lock& lock) {
  must_stop_ = true;
  finish_deadline_ = deadline;
  work_.notify_one();
  bool was_interrupted = false;
  while (sender_.joinable() && !is_sender_over_ && !was_interrupted) {
    // The sender stops by itself at the deadline.
    was_interrupted = wait.Until(progress_, After(kFarAway), lock) ==
                      InterruptibleWait::Result::kInterrupted;
  }
  finish_deadline_ = Clock::now();
  work_.notify_one();
  lock.unlock();
  if (sender_.joinable()) sender_.join();
  lock.lock();
  return !was_interrupted;
}

Status Client::Flush(std::chrono::microseconds timeout) {
  if (timeout.count() < 0) return InvalidArgument("timeout_us is negative");
  if (fork_guard_.in_child()) return ClosedOrForked();
  const auto deadline = After(timeout);
  Lock lock(mu_);
  if (is_closing_) return ClosedOrForked();
  InterruptibleWait wait(options_.interrupt);
  const std::optional<bool> delivered = WaitForDelivery(deadline, wait, lock);
  if (!delivered) return Interrupted();
  if (was_refused_) return {MSIT_ERROR_REFUSED, stream_error_};
  if (*delivered) return {};
  return {MSIT_ERROR_TIMEOUT, stream_error_.empty()
                                  ? "the daemon did not acknowledge in time"
                                  : stream_error_};
}

uint64_t Client::Mark() {
  if (fork_guard_.in_child()) return 0;
  const Lock lock(mu_);
  chunker_.Seal();
  work_.notify_one();
  return queue_.pushed_count();
}

bool Client::HasDelivered(uint64_t mark) const {
  if (fork_guard_.in_child()) return false;
  const Lock lock(mu_);
  return queue_.HaveLeft(mark);
}

Status Client::Close(std::chrono::microseconds timeout) {
  if (timeout.count() < 0) return InvalidArgument("timeout_us is negative");
  if (fork_guard_.in_child()) return ClosedOrForked();
  const auto deadline = After(timeout);
  Lock lock(mu_);
  if (is_closing_) return {};
  is_closing_ = true;
  // Later records are refused instead of filtered. Records that were already
  // filtered are included in the final report of the sender.
  filter_.Stop();
  room_.notify_all();
  InterruptibleWait wait(options_.interrupt);
  // A copy in progress ends soon, so it is waited for without a deadline.
  while (writer_count_ != 0) progress_.wait(lock);
  // Open reservations hold back the records after them, so they get half of the
  // time, and all other records the other half.
  const auto begin = Clock::now();
  bool is_interrupted =
      !WaitForReservations(begin + (deadline - begin) / 2, wait, lock);
  const bool has_withdrawn = WithdrawOpenReservations();
  bool is_delivered = false;
  if (!is_interrupted) {
    const std::optional<bool> delivered = WaitForDelivery(deadline, wait, lock);
    is_interrupted = !delivered.has_value();
    is_delivered = delivered.value_or(false);
  }
  chunker_.Seal();
  const auto now = Clock::now();
  const bool has_finished =
      StopSender(is_delivered ? now + kFinishTimeout : now, wait, lock);
  if (is_interrupted || !has_finished) return Interrupted();
  if (was_refused_) return {MSIT_ERROR_REFUSED, stream_error_};
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
  const Lock lock(mu_);
  counters.recorded_count = ledger_.recorded_count();
  counters.recorded_bytes = ledger_.recorded_bytes();
  counters.acknowledged_count = ledger_.acknowledged_count();
  counters.acknowledged_bytes = ledger_.acknowledged_bytes();
  counters.dropped_count = ledger_.coverage().dropped_count;
  counters.truncated_count = ledger_.coverage().truncated_count;
  counters.invalid_count = ledger_.invalid_count();
  counters.filtered_count = filter_.filtered_count();
  counters.refused_chunk_count = refused_chunk_count_;
  counters.reconnect_count = reconnect_count_;
  counters.degraded_count = ledger_.coverage().degraded_count;
  counters.conflict_count = former_conflict_count_ + conflict_count_;
  counters.aliased_count = ledger_.aliased_count();
  counters.aliased_bytes = ledger_.aliased_bytes();
  const RecordingTime::Times times = recording_time_.Read();
  counters.recording_ns = times.recording_ns;
  counters.open_ns = times.open_ns;
  return counters;
}

std::string Client::run() const {
  if (fork_guard_.in_child()) return options_.run;
  const Lock lock(mu_);
  return run_;
}

std::string Client::stream_error() const {
  if (fork_guard_.in_child()) return ClosedOrForked().message;
  const Lock lock(mu_);
  return stream_error_;
}

}  // namespace msitd::libmsit
