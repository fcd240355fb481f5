// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <thread>
#include <utility>

#include "client/foreign/fill/import_job.h"
#include "client/libmsit/core/delivery/stream_end.h"
#include "protos/status/status.h"

// Sends records to the daemon and writes entries to the ledger.
namespace msitd::fill {
namespace {

// The interval at which the time is checked.
constexpr std::chrono::milliseconds kTick{100};

// How long to wait for data in transit after the user cancels an import.
constexpr std::chrono::microseconds kSalvageTime = std::chrono::seconds(3);
constexpr std::chrono::microseconds kNoTime{0};

// Closing a stream without data in transit takes at most this long.
constexpr std::chrono::seconds kCloseTime{1};

constexpr std::chrono::milliseconds kSavePause{200};

}  // namespace

absl::Status ImportJob::OpenRank(int32_t rank) {
  if (client_ != nullptr && rank_ == rank) return absl::OkStatus();
  if (!options_.keeps_streams) MSITD_RETURN_IF_ERROR(CloseRank());
  Park();
  if (Unpark(rank)) return absl::OkStatus();
  if (parked_.size() >= kKeptStreamsMax) {
    MSITD_RETURN_IF_ERROR(SettleKept());
    EndStreams();
  }
  const libmsit::InterruptCheck check{
      [](void* job) -> int32_t {
        auto* const self = static_cast<ImportJob*>(job);
        return !self->is_deaf_ && self->target_.is_interrupted() ? 1 : 0;
      },
      this};
  MSITD_ASSIGN_OR_RETURN(client_, target_.OpenRank(rank, check));
  rank_ = rank;
  given_up_count_ = 0;
  save_time_ = Clock::now() + kSaveInterval;
  return absl::OkStatus();
}

void ImportJob::Park() {
  if (client_ == nullptr) return;
  parked_[rank_] = {std::move(client_), given_up_count_, /*is_used=*/true};
}

bool ImportJob::Unpark(int32_t rank) {
  const auto at = parked_.find(rank);
  if (at == parked_.end()) return false;
  client_ = std::move(at->second.client);
  given_up_count_ = at->second.given_up_count;
  rank_ = rank;
  parked_.erase(at);
  return true;
}

absl::Status ImportJob::SettleKept() {
  Park();
  // All streams are marked before the first wait.
  for (auto& [rank, parked] : parked_) {
    if (parked.is_used) (void)parked.client->Mark();
  }
  std::vector<int32_t> ranks;
  for (const auto& [rank, parked] : parked_) {
    if (parked.is_used) ranks.push_back(rank);
  }
  for (const int32_t rank : ranks) {
    (void)Unpark(rank);
    const libmsit::Status flushed = client_->Flush(options_.patience);
    if (flushed.code == MSIT_ERROR_INTERRUPTED) {
      return absl::CancelledError("interrupted");
    }
    if (!flushed.ok()) return WhyLate();
    MSITD_RETURN_IF_ERROR(CheckDelivery());
    Park();
    parked_[rank].is_used = false;
  }
  ledger_.Mark();
  return ledger_.Settle();
}

UnstoredCounts ImportJob::unstored() const {
  UnstoredCounts counts = {counts_.filtered_count, counts_.conflict_count};
  const auto add = [&counts](const libmsit::Client& client) {
    const libmsit::ClientCounters counters = client.counters();
    counts.filtered_count += static_cast<int64_t>(counters.filtered_count);
    counts.conflict_count += static_cast<int64_t>(counters.conflict_count);
  };
  if (client_ != nullptr) add(*client_);
  for (const auto& [rank, parked] : parked_) add(*parked.client);
  return counts;
}

absl::Status ImportJob::SaveAdded() {
  ledger_.Mark();
  MSITD_RETURN_IF_ERROR(ledger_.Settle());
  return SaveLedger(/*must=*/true);
}

void ImportJob::EndStreams() {
  Park();
  while (!parked_.empty()) {
    (void)Unpark(parked_.begin()->first);
    EndClient();
  }
}

absl::Status ImportJob::Send(int32_t rank, const libmsit::TensorView& record,
                             absl::Status& problem) {
  MSITD_RETURN_IF_ERROR(OpenRank(rank));
  const libmsit::Status sent = client_->Record(record);
  switch (sent.code) {
    case MSIT_OK:
      if (options_.on_sent) options_.on_sent(record);
      return absl::OkStatus();
    case MSIT_ERROR_INVALID_ARGUMENT:
      problem = absl::InvalidArgumentError(sent.message);
      return absl::OkStatus();
    case MSIT_ERROR_INTERRUPTED:
      return absl::CancelledError("interrupted");
    case MSIT_ERROR_DROPPED:
      if (record.source == nullptr || feed_.source_status().ok()) {
        return WhyDropped(sent);
      }
      problem = feed_.source_status();
      given_up_count_ = client_->counters().truncated_count;
      return absl::OkStatus();
    default:
      return absl::InternalError(sent.message);
  }
}

absl::Status ImportJob::WhyDropped(const libmsit::Status& dropped) {
  return dropped.is_for_space ? WhyLate()
                              : absl::FailedPreconditionError(dropped.message);
}

absl::Status ImportJob::WhyLate() {
  const bool is_refused = client_->Flush(kNoTime).code == MSIT_ERROR_REFUSED;
  if (is_refused) {
    return absl::FailedPreconditionError(client_->stream_error());
  }
  const std::chrono::duration<double> patience = options_.patience;
  const std::string why = client_->stream_error();
  const bool is_full = why.starts_with("RESOURCE_EXHAUSTED");
  return WithReason(
      MakeStatus(is_full ? absl::StatusCode::kResourceExhausted
                         : absl::StatusCode::kUnavailable,
                 "the daemon has accepted no records for {:g} s{}{}",
                 patience.count(), why.empty() ? "" : ": ", why),
      libmsit::ReasonOfEnd(why));
}

absl::Status ImportJob::CheckDelivery() {
  const libmsit::ClientCounters counters = client_->counters();
  const uint64_t lost_count =
      counters.dropped_count + counters.truncated_count - given_up_count_;
  if (lost_count == 0 && counters.refused_chunk_count == 0) {
    return absl::OkStatus();
  }
  return MakeStatus(absl::StatusCode::kInternal,
                    "the daemon rejected {} records: {}", lost_count,
                    client_->stream_error());
}

void ImportJob::Mark() {
  ledger_.Mark();
  mark_ = client_->Mark();
}

absl::Status ImportJob::SaveInTime() {
  const auto now = Clock::now();
  if (now < tick_time_) return absl::OkStatus();
  tick_time_ = now + kTick;
  target_.OnProgress(counts_, problems_.count());
  if (target_.is_interrupted()) return absl::CancelledError("interrupted");
  if (client_ == nullptr || options_.keeps_streams) return absl::OkStatus();
  if (ledger_.has_mark() && client_->HasDelivered(mark_)) {
    MSITD_RETURN_IF_ERROR(CheckDelivery());
    MSITD_RETURN_IF_ERROR(ledger_.Settle());
    MSITD_RETURN_IF_ERROR(SaveLedger(/*must=*/false));
  }
  if (!ledger_.has_mark() && ledger_.has_added() && now >= save_time_) {
    Mark();
    save_time_ = now + kSaveInterval;
  }
  return absl::OkStatus();
}

absl::Status ImportJob::SaveLedger(bool must) {
  const auto deadline = Clock::now() + options_.patience;
  while (const auto part = ledger_.Unsaved()) {
    const absl::Status saved =
        target_.Attach(part->name, "application/jsonl", part->text);
    if (saved.ok()) {
      ledger_.SetSaved();
      continue;
    }
    // While the daemon restarts, records wait for it, and so does the ledger.
    if (!absl::IsUnavailable(saved) && !absl::IsDeadlineExceeded(saved)) {
      return saved;
    }
    if (!must) return absl::OkStatus();
    if (Clock::now() >= deadline) return saved;
    if (target_.is_interrupted()) return absl::CancelledError("interrupted");
    std::this_thread::sleep_for(kSavePause);
  }
  return absl::OkStatus();
}

absl::Status ImportJob::CloseRank() {
  if (client_ == nullptr) return absl::OkStatus();
  Mark();
  const libmsit::Status flushed = client_->Flush(options_.patience);
  if (flushed.code == MSIT_ERROR_INTERRUPTED) {
    return absl::CancelledError("interrupted");
  }
  if (!flushed.ok()) return WhyLate();
  MSITD_RETURN_IF_ERROR(CheckDelivery());
  MSITD_RETURN_IF_ERROR(ledger_.Settle());
  EndClient();
  return SaveLedger(/*must=*/false);
}

void ImportJob::SalvageRank(bool waits) {
  if (client_ == nullptr) return;
  is_deaf_ = true;
  // Even if the rest does not arrive, the data before the mark may have
  // arrived.
  if (ledger_.has_mark() && client_->HasDelivered(mark_) &&
      CheckDelivery().ok()) {
    (void)ledger_.Settle();
  }
  ledger_.Mark();
  const std::chrono::microseconds time = waits ? kSalvageTime : kNoTime;
  const bool has_arrived = client_->Flush(time).ok() && CheckDelivery().ok();
  if (has_arrived) (void)ledger_.Settle();
  (void)SaveLedger(/*must=*/false);
  EndClient();
  is_deaf_ = false;
}

void ImportJob::EndClient() {
  (void)client_->Close(kCloseTime);
  const libmsit::ClientCounters counters = client_->counters();
  counts_.filtered_count += static_cast<int64_t>(counters.filtered_count);
  counts_.conflict_count += static_cast<int64_t>(counters.conflict_count);
  client_.reset();
}

}  // namespace msitd::fill
