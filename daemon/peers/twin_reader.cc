// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/twin_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "daemon/peers/equal_groups.h"
#include "daemon/peers/remote_scan.h"
#include "protos/base/check.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

bool IsLocal(const storage::PartInfo& part) {
  return part.place.file >= kPeerFileEnd;
}

storage::PartInfo AtHand(storage::PartInfo part) {
  part.place.file -= kPeerFileEnd;
  return part;
}

class TwinReader;

// Scans the entries of one selector, piece by piece.
class TwinScan final : public storage::TensorScan {
 public:
  TwinScan(TwinReader& reader, Selector selector, uint64_t passed_over_count)
      : reader_(reader),
        selector_(std::move(selector)),
        passed_over_count_(passed_over_count) {}

  absl::StatusOr<bool> Next(storage::TensorInfo& out,
                            storage::StopCheck stop) override;
  // The position is the number of entries that were returned.
  std::string position() const override {
    const uint64_t count = count_ + passed_over_count_;
    return count == 0 ? ""
                      : std::string(reinterpret_cast<const char*>(&count),
                                    sizeof(count));
  }
  uint64_t incomplete_count() const override {
    return incomplete_count_ +
           (scan_ == nullptr ? 0 : scan_->incomplete_count());
  }

 private:
  absl::StatusOr<bool> NextOfPiece(storage::TensorInfo& out,
                                   storage::StopCheck stop);

  TwinReader& reader_;
  const Selector selector_;
  bool is_cut_ = false;
  std::vector<EqualGroups::Piece> pieces_;
  size_t piece_ = 0;
  std::unique_ptr<storage::TensorScan> scan_;  // Of the current piece.
  bool is_local_ = false;
  uint64_t count_ = 0;
  uint64_t passed_over_count_;
  uint64_t incomplete_count_ = 0;  // Of previous pieces.
};

// Parts of both runs. Each side reads its own parts.
class TwinParts final : public storage::PartBatch {
 public:
  TwinParts(TwinReader& reader, std::span<const storage::PartInfo> parts,
            AlignedBuffer& buffer);

  size_t size() const override { return size_; }
  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override;

 private:
  struct Side {
    std::vector<storage::PartInfo> parts;
    std::unique_ptr<storage::PartBatch> batch;
  };

  TwinReader& reader_;
  std::vector<size_t> places_;  // Of each part among the parts of its side.
  std::vector<bool> is_local_;
  size_t size_ = 0;
  AlignedBuffer local_buffer_;
  Side local_;
  Side far_;
};

class TwinReader final : public storage::RunReader {
 public:
  TwinReader(std::unique_ptr<storage::RunReader> run, ReadDigests read_digests,
             storage::RunReader& local)
      : run_(std::move(run)),
        read_digests_(std::move(read_digests)),
        local_(local) {}

  storage::RunReader& run() { return *run_; }
  storage::RunReader& local() { return local_; }

  const std::string& name() const override { return run_->name(); }
  bool is_far() const override { return run_->is_far(); }
  absl::StatusOr<storage::RunInfo> GetInfo() override {
    return run_->GetInfo();
  }
  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage() override {
    return run_->ListCoverage();
  }
  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    return run_->ListRanks();
  }
  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    return run_->ListPlacements();
  }

  absl::StatusOr<std::vector<storage::Coordinate>> ListCoordinates(
      const Selector& selector) override {
    {
      const MutexLock lock(mu_);
      // All records of a group are included in its digest, so digests do not
      // pay off if only a few records are requested.
      if (state_ == State::kNew && selector.op_patterns.empty()) {
        state_ = State::kScoped;
        scope_.ranks = selector.ranks;
        scope_.devices = selector.devices;
        scope_.tokens = selector.tokens;
      }
    }
    return run_->ListCoordinates(selector);
  }

  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    uint64_t passed_over_count = 0;
    if (position.size() == sizeof(passed_over_count)) {
      std::memcpy(&passed_over_count, position.data(), position.size());
    } else if (!position.empty()) {
      return WithReason(
          MakeStatus(absl::StatusCode::kInvalidArgument,
                     "the position is of no scan of run {}", name()),
          ErrorReason::kPageTokenInvalid);
    }
    return std::make_unique<TwinScan>(*this, std::move(selector),
                                      passed_over_count);
  }

  absl::StatusOr<storage::TensorInfo> GetTensor(const TensorKey& key) override {
    return run_->GetTensor(key);
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const storage::PartInfo& part, AlignedBuffer& buffer) override {
    if (!IsLocal(part)) return run_->ReadPart(part, buffer);
    return OfLocal(local_.ReadPart(AtHand(part), buffer));
  }

  std::unique_ptr<storage::PartBatch> ReadParts(
      std::span<const storage::PartInfo> parts,
      AlignedBuffer& buffer) override {
    if (std::none_of(parts.begin(), parts.end(), IsLocal)) {
      return run_->ReadParts(parts, buffer);
    }
    return std::make_unique<TwinParts>(*this, parts, buffer);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const storage::TensorInfo& tensor, size_t part,
      AlignedBuffer& buffer) override {
    MSITD_CHECK(part < tensor.parts.size());
    if (!IsLocal(tensor.parts[part])) {
      return run_->ReadSample(tensor, part, buffer);
    }
    storage::TensorInfo at_hand = tensor;
    at_hand.parts[part] = AtHand(tensor.parts[part]);
    return OfLocal(local_.ReadSample(at_hand, part, buffer));
  }

  std::unique_ptr<storage::PartBatch> ReadSamples(
      std::span<const storage::SamplePart> samples,
      AlignedBuffer& buffer) override {
    const bool has_local = std::any_of(
        samples.begin(), samples.end(),
        [](const storage::SamplePart& sample) { return IsLocal(sample.part); });
    return has_local ? nullptr : run_->ReadSamples(samples, buffer);
  }

  // Data from the local run must not have changed since its digest was
  // computed.
  absl::StatusOr<std::span<const std::byte>> OfLocal(
      absl::StatusOr<std::span<const std::byte>> bytes) const {
    return HasReason(bytes.status(), ErrorReason::kTensorExpired)
               ? HasChanged()
               : std::move(bytes);
  }
  absl::Status HasChanged() const {
    return WithReason(
        MakeStatus(absl::StatusCode::kUnavailable,
                   "run {} lost bytes meanwhile that were to stand for equal "
                   "ones of run {}; compare again",
                   local_.name(), name()),
        ErrorReason::kSourceFailed);
  }

  // Returns whether the local run is unchanged since its digests were computed.
  absl::StatusOr<bool> IsUnchanged() {
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, local_.GetInfo());
    const MutexLock lock(mu_);
    return info.counters.expired_bytes == local_expired_bytes_;
  }

  // Returns the groups that cover `selector`; null if there are none. The
  // groups live as long as the reader.
  absl::StatusOr<const EqualGroups*> GroupsFor(const Selector& selector,
                                               storage::StopCheck stop) {
    constexpr std::chrono::milliseconds kQuestionInterval{50};
    {
      const MutexLock lock(mu_);
      while (state_ == State::kWorking) {
        changed_.WaitUntil(
            mu_, std::chrono::steady_clock::now() + kQuestionInterval);
        MSITD_RETURN_IF_ERROR(stop());
      }
      if (state_ == State::kNew || state_ == State::kNone ||
          !IsInScope(selector)) {
        return nullptr;
      }
      if (state_ == State::kReady) return &groups_;
      state_ = State::kWorking;
    }
    const absl::Status status = FindGroups(stop);
    const MutexLock lock(mu_);
    const bool is_no_use =
        absl::IsUnimplemented(status) || absl::IsResourceExhausted(status);
    state_ = status.ok() ? State::kReady
             : is_no_use ? State::kNone
                         : State::kScoped;
    changed_.NotifyAll();
    if (is_no_use && Reason(status).empty()) return nullptr;
    MSITD_RETURN_IF_ERROR(status);
    return &groups_;
  }

 private:
  enum class State {
    kNew,      // The scope is not known yet.
    kScoped,   // scope_ is set.
    kWorking,  // A thread determines the groups.
    kReady,    // groups_ is constant.
    kNone,     // No groups are available.
  };

  bool IsInScope(const Selector& selector) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto all = [](const auto& some, const auto& whole) {
      return whole.empty() ||
             (!some.empty() &&
              std::all_of(some.begin(), some.end(), [&whole](const auto& one) {
                return std::find(whole.begin(), whole.end(), one) !=
                       whole.end();
              }));
    };
    const bool has_tokens =
        scope_.tokens.empty() ||
        (!selector.tokens.empty() &&
         std::all_of(selector.tokens.begin(), selector.tokens.end(),
                     [this](const TokenRange& range) {
                       return std::any_of(scope_.tokens.begin(),
                                          scope_.tokens.end(),
                                          [&range](const TokenRange& whole) {
                                            return whole.first <= range.first &&
                                                   range.last <= whole.last;
                                          });
                     }));
    return has_tokens && all(selector.ranks, scope_.ranks) &&
           all(selector.devices, scope_.devices);
  }

  // Called by the thread in state kWorking.
  absl::Status FindGroups(storage::StopCheck stop) {
    Selector scope;
    {
      const MutexLock lock(mu_);
      scope = scope_;
    }
    MSITD_ASSIGN_OR_RETURN(const storage::RunInfo info, local_.GetInfo());
    EqualGroups groups;
    MSITD_ASSIGN_OR_RETURN(const auto scan,
                           query::GroupDigestScan::Begin(local_, scope, ""));
    query::GroupDigest digest;
    while (true) {
      MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(digest, stop));
      if (!found) break;
      MSITD_RETURN_IF_ERROR(groups.AddOther(digest));
    }
    MSITD_RETURN_IF_ERROR(
        read_digests_(scope, stop, [&groups](const query::GroupDigest& group) {
          return groups.Add(group);
        }));
    groups.Finish();
    const MutexLock lock(mu_);
    groups_ = std::move(groups);
    local_expired_bytes_ = info.counters.expired_bytes;
    return absl::OkStatus();
  }

  const std::unique_ptr<storage::RunReader> run_;
  const ReadDigests read_digests_;
  storage::RunReader& local_;
  Mutex mu_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kNew;
  Selector scope_ ABSL_GUARDED_BY(mu_);
  // Written only in state kWorking; read without the lock in state kReady.
  EqualGroups groups_;
  uint64_t local_expired_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::StatusOr<bool> TwinScan::Next(storage::TensorInfo& out,
                                    storage::StopCheck stop) {
  if (!is_cut_) {
    MSITD_ASSIGN_OR_RETURN(const EqualGroups* const groups,
                           reader_.GroupsFor(selector_, stop));
    if (groups != nullptr) {
      pieces_ = groups->Cut(selector_);
    } else {
      pieces_ = {{false, selector_}};
    }
    is_cut_ = true;
  }
  while (piece_ < pieces_.size()) {
    MSITD_ASSIGN_OR_RETURN(const bool found, NextOfPiece(out, stop));
    if (!found) continue;
    ++count_;
    if (passed_over_count_ > 0) {
      --passed_over_count_;
      continue;
    }
    return true;
  }
  return false;
}

absl::StatusOr<bool> TwinScan::NextOfPiece(storage::TensorInfo& out,
                                           storage::StopCheck stop) {
  if (scan_ == nullptr) {
    is_local_ = pieces_[piece_].is_equal;
    if (is_local_) {
      MSITD_ASSIGN_OR_RETURN(is_local_, reader_.IsUnchanged());
    }
    storage::RunReader& side = is_local_ ? reader_.local() : reader_.run();
    MSITD_ASSIGN_OR_RETURN(scan_, side.Scan(pieces_[piece_].selector, ""));
  }
  MSITD_ASSIGN_OR_RETURN(const bool found, scan_->Next(out, stop));
  if (!found) {
    if (is_local_) {
      MSITD_ASSIGN_OR_RETURN(const bool is_unchanged, reader_.IsUnchanged());
      if (!is_unchanged) return reader_.HasChanged();
    }
    incomplete_count_ += scan_->incomplete_count();
    scan_ = nullptr;
    ++piece_;
    return false;
  }
  out.stack.clear();
  out.alias_of.reset();
  if (!is_local_) return true;
  out.key.run = reader_.name();
  for (storage::PartInfo& part : out.parts) part.place.file += kPeerFileEnd;
  return true;
}

TwinParts::TwinParts(TwinReader& reader,
                     std::span<const storage::PartInfo> parts,
                     AlignedBuffer& buffer)
    : reader_(reader) {
  uint64_t bytes = 0;
  for (const storage::PartInfo& part : parts) {
    bytes += part.bytes;
    if (places_.size() == storage::kBatchPartsMax ||
        (!places_.empty() && bytes > storage::kBatchBytesMax)) {
      break;
    }
    const bool is_local = IsLocal(part);
    is_local_.push_back(is_local);
    Side& side = is_local ? local_ : far_;
    places_.push_back(side.parts.size());
    side.parts.push_back(is_local ? AtHand(part) : part);
  }
  local_.batch = reader_.local().ReadParts(local_.parts, local_buffer_);
  if (!far_.parts.empty()) {
    far_.batch = reader_.run().ReadParts(far_.parts, buffer);
  }
  while (size_ < places_.size() &&
         places_[size_] < (is_local_[size_] ? local_ : far_).batch->size()) {
    ++size_;
  }
}

absl::StatusOr<std::span<const std::byte>> TwinParts::Read(size_t index) {
  MSITD_CHECK(index < size());
  if (!is_local_[index]) return far_.batch->Read(places_[index]);
  return reader_.OfLocal(local_.batch->Read(places_[index]));
}

}  // namespace

std::unique_ptr<storage::RunReader> MakeTwinReader(
    std::unique_ptr<storage::RunReader> run, ReadDigests read_digests,
    storage::RunReader& local) {
  return std::make_unique<TwinReader>(std::move(run), std::move(read_digests),
                                      local);
}

}  // namespace msitd::peers
