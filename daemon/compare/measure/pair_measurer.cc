// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_measurer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr size_t kNotAhead = static_cast<size_t>(-1);

// What is read ahead of a side fits into a batch, wherever it lies.
static_assert(2 * (kPartBytes + 2 * kChunkAlignment) <=
              storage::kBatchBytesMax);
static_assert(PairMeasurer::kWindowBytesMax >= 2 * kPartBytes);

uint64_t BytesOf(const PairTask& task) {
  return task.pair->target->tensor_bytes + task.pair->golden->tensor_bytes;
}

// Adds the places of all bytes of a tensor. False if they are not known, or are
// more than is read ahead.
bool AddParts(const LogicalTensor& tensor,
              std::vector<storage::PartInfo>& out) {
  if (tensor.assembly != nullptr && tensor.assembly->lean.has_value()) {
    return false;
  }
  uint64_t bytes = 0;
  for (const storage::TensorInfo& shard : ShardsOf(tensor)) {
    if (shard.parts.size() != 1 || !shard.has_bytes) return false;
    bytes += shard.tensor_bytes;
    if (bytes > kPartBytes) return false;
    out.push_back(shard.parts.front());
  }
  return true;
}

}  // namespace

class PairMeasurer::AheadObserver final : public WorkObserver {
 public:
  explicit AheadObserver(PairMeasurer& measurer) : measurer_(measurer) {}

  bool must_end() const {
    return measurer_.is_stopping_.load(std::memory_order_relaxed);
  }
  absl::Status Check() override {
    return must_end() ? absl::CancelledError("cancelled") : absl::OkStatus();
  }
  void OnRead(uint64_t bytes) override {
    measurer_.ahead_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  PairMeasurer& measurer_;
};

bool PairMeasurer::WindowSide::IsShort() const {
  return batch != nullptr && batch->size() < parts.size();
}

void PairMeasurer::WindowSide::ShedLast() {
  if (first_parts.back() != kNotAhead) parts.resize(first_parts.back());
  first_parts.back() = kNotAhead;
}

PartsAhead PairMeasurer::WindowSide::Ahead(size_t pair) const {
  if (first_parts[pair] == kNotAhead) return {};
  return {batch.get(), first_parts[pair]};
}

PairMeasurer::PairMeasurer(storage::RunReader& target,
                           storage::RunReader& golden, WorkObserver& observer,
                           Measure measure)
    : target_(target),
      golden_(golden),
      observer_(observer),
      measure_(std::move(measure)) {}

void PairMeasurer::Stop() {
  std::thread ahead;
  {
    const MutexLock lock(mu_);
    is_stopping_.store(true, std::memory_order_relaxed);
    changed_.NotifyAll();
    ahead = std::move(ahead_);
  }
  if (ahead.joinable()) ahead.join();
  const MutexLock lock(mu_);
  waiting_.clear();
  windows_.clear();
}

void PairMeasurer::Add(std::span<const PairTask> tasks) {
  const MutexLock lock(mu_);
  if (is_stopping_.load(std::memory_order_relaxed)) return;
  for (const PairTask& task : tasks) {
    waiting_.push_back(task);
    waiting_bytes_ += BytesOf(task);
  }
  if (waiting_.size() > 1 && !ahead_.joinable()) {
    ahead_ = StartSpareThread("pairs-ahead", [this] { WorkAhead(); });
  }
  changed_.NotifyAll();
}

absl::StatusOr<PairMeasurement> PairMeasurer::Next() {
  while (true) {
    Result result;
    {
      const MutexLock lock(mu_);
      result = TakeNext();
      if (!result.has_value() && !HasWork()) {
        changed_.WaitUntil(
            mu_, std::chrono::steady_clock::now() + kQuestionInterval);
      }
    }
    if (ahead_bytes_.load(std::memory_order_relaxed) > 0) {
      observer_.OnRead(ahead_bytes_.exchange(0, std::memory_order_relaxed));
    }
    if (result.has_value()) return *std::move(result);
    MSITD_RETURN_IF_ERROR(observer_.Check());
    Work(reader_, observer_);
  }
}

PairMeasurer::Result PairMeasurer::TakeNext() {
  if (windows_.empty()) return std::nullopt;
  Window& window = *windows_.front();
  if (!window.is_measured[window.taken]) return std::nullopt;
  Result out = std::move(window.results[window.taken++]);
  if (window.taken == window.tasks.size()) {
    window.target.batch.reset();
    window.golden.batch.reset();
    spares_.push_back(std::move(windows_.front()));
    windows_.pop_front();
  }
  return out;
}

bool PairMeasurer::HasWork() const {
  return MayPlan() ||
         std::any_of(windows_.begin(), windows_.end(), [](const auto& window) {
           return window->claimed < window->tasks.size();
         });
}

bool PairMeasurer::MayPlan() const {
  if (is_planning_ || waiting_.empty() || windows_.size() >= kWindowsMax) {
    return false;
  }
  // A small window makes small reads, so the third one has to be full.
  return windows_.size() < 2 || waiting_bytes_ >= kWindowBytesMax ||
         waiting_.size() >= kWindowPairsMax;
}

PairMeasurer::Claim PairMeasurer::ClaimPairs() {
  for (const std::unique_ptr<Window>& window : windows_) {
    Claim claim = {window.get(), window->claimed, window->claimed};
    uint64_t bytes = 0;
    while (claim.end < window->tasks.size()) {
      bytes += BytesOf(window->tasks[claim.end]);
      const size_t count = claim.end - claim.begin;
      if (count == kClaimPairsMax || (count > 0 && bytes > kClaimBytesMax)) {
        break;
      }
      ++claim.end;
    }
    window->claimed = claim.end;
    if (claim.begin < claim.end) return claim;
  }
  return {};
}

void PairMeasurer::Work(PairReader& reader, WorkObserver& observer) {
  std::unique_ptr<Window> window;
  Claim claim;
  {
    const MutexLock lock(mu_);
    if (MayPlan()) {
      window = FillWindow();
    } else {
      claim = ClaimPairs();
    }
  }
  if (claim.window != nullptr) MeasureClaim(claim, reader, observer);
  if (window == nullptr) return;
  const std::vector<PairTask> left_over = BeginToRead(*window);
  const MutexLock lock(mu_);
  for (const PairTask& task : left_over) {
    waiting_.push_front(task);
    waiting_bytes_ += BytesOf(task);
  }
  windows_.push_back(std::move(window));
  is_planning_ = false;
  changed_.NotifyAll();
}

std::unique_ptr<PairMeasurer::Window> PairMeasurer::FillWindow() {
  is_planning_ = true;
  std::unique_ptr<Window> out;
  if (spares_.empty()) {
    out = std::make_unique<Window>();
  } else {
    out = std::move(spares_.back());
    spares_.pop_back();
  }
  out->tasks.clear();
  uint64_t bytes = 0;
  while (!waiting_.empty() && out->tasks.size() < kWindowPairsMax) {
    const uint64_t pair_bytes = BytesOf(waiting_.front());
    if (!out->tasks.empty() && bytes + pair_bytes > kWindowBytesMax) break;
    bytes += pair_bytes;
    waiting_bytes_ -= pair_bytes;
    out->tasks.push_back(waiting_.front());
    waiting_.pop_front();
  }
  return out;
}

std::vector<PairTask> PairMeasurer::BeginToRead(Window& window) {
  WindowSide& target = window.target;
  WindowSide& golden = window.golden;
  for (WindowSide* const side : {&target, &golden}) {
    side->parts.clear();
    side->first_parts.clear();
  }
  window.claimed = window.taken = 0;
  for (const PairTask& task : window.tasks) {
    target.first_parts.push_back(target.parts.size());
    golden.first_parts.push_back(golden.parts.size());
    const bool is_known = !task.is_sampled &&
                          AddParts(*task.pair->target, target.parts) &&
                          AddParts(*task.pair->golden, golden.parts);
    if (is_known) continue;
    target.ShedLast();
    golden.ShedLast();
  }
  if (!target.parts.empty()) {
    target.batch = target_.ReadParts(target.parts, target.buffer);
    golden.batch = golden_.ReadParts(golden.parts, golden.buffer);
  }
  std::vector<PairTask> left_over;
  while (target.IsShort() || golden.IsShort()) {
    target.ShedLast();
    golden.ShedLast();
    if (window.tasks.size() == 1) break;
    left_over.push_back(window.tasks.back());
    window.tasks.pop_back();
    target.first_parts.pop_back();
    golden.first_parts.pop_back();
  }
  window.results.clear();
  window.results.resize(window.tasks.size());
  window.is_measured.assign(window.tasks.size(), false);
  return left_over;
}

void PairMeasurer::MeasureClaim(const Claim& claim, PairReader& reader,
                                WorkObserver& observer) {
  Window& window = *claim.window;
  for (size_t i = claim.begin; i < claim.end; ++i) {
    const PairAhead ahead = {window.target.Ahead(i), window.golden.Ahead(i)};
    window.results[i] = measure_(window.tasks[i], ahead, reader, observer);
  }
  const MutexLock lock(mu_);
  std::fill(window.is_measured.begin() + static_cast<ptrdiff_t>(claim.begin),
            window.is_measured.begin() + static_cast<ptrdiff_t>(claim.end),
            true);
  changed_.NotifyAll();
}

void PairMeasurer::WorkAhead() {
  AheadObserver observer(*this);
  while (!observer.must_end()) {
    Work(ahead_reader_, observer);
    const MutexLock lock(mu_);
    while (!HasWork() && !observer.must_end()) changed_.Wait(mu_);
  }
}

}  // namespace msitd::compare
