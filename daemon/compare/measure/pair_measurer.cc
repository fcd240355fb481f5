// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_measurer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/compare/view/tensor_view.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr size_t kNotAhead = static_cast<size_t>(-1);

// Samples of tensors with more parts are not read ahead.
constexpr size_t kSampledPartsMax = 64;

// The bytes of a pair that are read ahead fit into a batch, regardless of their
// alignment.
static_assert(2 * (kPartBytes + 2 * kChunkAlignment) <=
              storage::kBatchBytesMax);
static_assert(PairMeasurer::kWindowBytesMax >= 2 * kPartBytes);

// Returns the size of the tensors that are read.
uint64_t ReadBytesOf(const LogicalTensor& tensor) {
  uint64_t out = 0;
  for (const LogicalTensor& leaf : LeavesOf(tensor)) out += leaf.tensor_bytes;
  return out;
}

uint64_t BytesOf(const PairTask& task) {
  const uint64_t target = ReadBytesOf(*task.pair->target);
  const uint64_t golden = ReadBytesOf(*task.pair->golden);
  if (!task.is_sampled) return target + golden;
  return std::min(target, kSampleBytesMax) + std::min(golden, kSampleBytesMax);
}

// Adds the parts of a tensor. Returns false if they are unknown or too large to
// be read ahead.
bool AddParts(const LogicalTensor& tensor,
              std::vector<storage::PartInfo>& out) {
  uint64_t bytes = 0;
  for (const LogicalTensor& leaf : LeavesOf(tensor)) {
    if (leaf.assembly != nullptr && leaf.assembly->lean.has_value()) {
      return false;
    }
    for (const storage::TensorInfo& shard : ShardsOf(leaf)) {
      if (shard.parts.size() != 1 || !shard.has_bytes) return false;
      bytes += shard.tensor_bytes;
      if (bytes > kPartBytes) return false;
      out.push_back(shard.parts.front());
    }
  }
  return true;
}

// Adds the parts that contain the sample of a tensor of one rank. Returns false
// if they are unknown or too many to be read ahead.
bool AddSamples(const LogicalTensor& tensor,
                std::vector<storage::SamplePart>& out) {
  if (tensor.assembly != nullptr || IsRearranged(tensor)) return false;
  const storage::TensorInfo& stored = ShardsOf(tensor).front();
  if (stored.parts.size() > kSampledPartsMax || !HasAllParts(stored)) {
    return false;
  }
  for (size_t i = 0; i < stored.parts.size(); ++i) {
    out.push_back(storage::SamplePartOf(stored, i));
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

template <typename T>
void PairMeasurer::ReadAhead<T>::BeginWindow() {
  wanted.clear();
  firsts.clear();
}

template <typename T>
bool PairMeasurer::ReadAhead<T>::IsShort() const {
  return batch != nullptr && batch->size() < wanted.size();
}

template <typename T>
void PairMeasurer::ReadAhead<T>::ShedLast() {
  if (firsts.back() != kNotAhead) wanted.resize(firsts.back());
  firsts.back() = kNotAhead;
}

template <typename T>
PartsAhead PairMeasurer::ReadAhead<T>::Ahead(size_t pair) const {
  if (firsts[pair] == kNotAhead) return {};
  return {batch.get(), firsts[pair]};
}

void PairMeasurer::WindowSide::BeginPair() {
  parts.BeginPair();
  samples.BeginPair();
}

void PairMeasurer::WindowSide::ShedLast() {
  parts.ShedLast();
  samples.ShedLast();
}

void PairMeasurer::WindowSide::PopLast() {
  parts.PopLast();
  samples.PopLast();
}

void PairMeasurer::WindowSide::BeginToRead(storage::RunReader& run) {
  if (!parts.wanted.empty()) {
    parts.batch = run.ReadParts(parts.wanted, parts.buffer);
  }
  if (!samples.wanted.empty()) {
    samples.batch = run.ReadSamples(samples.wanted, samples.buffer);
  }
}

void PairMeasurer::WindowSide::Drop() {
  parts.batch.reset();
  samples.batch.reset();
}

PartsAhead PairMeasurer::WindowSide::Ahead(size_t pair) const {
  const PartsAhead out = parts.Ahead(pair);
  return out.batch != nullptr ? out : samples.Ahead(pair);
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
    window.target.Drop();
    window.golden.Drop();
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
  // A partly filled window causes small reads. The third window is therefore
  // started only if it can be filled.
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
    side->parts.BeginWindow();
    side->samples.BeginWindow();
  }
  window.claimed = window.taken = 0;
  for (const PairTask& task : window.tasks) {
    target.BeginPair();
    golden.BeginPair();
    const LogicalTensor& targets = *task.pair->target;
    const LogicalTensor& goldens = *task.pair->golden;
    const bool is_known = task.is_sampled
                              ? AddSamples(targets, target.samples.wanted) &&
                                    AddSamples(goldens, golden.samples.wanted)
                              : AddParts(targets, target.parts.wanted) &&
                                    AddParts(goldens, golden.parts.wanted);
    for (WindowSide* const side : {&target, &golden}) {
      if (!is_known || task.is_sampled) side->parts.ShedLast();
      if (!is_known || !task.is_sampled) side->samples.ShedLast();
    }
  }
  target.BeginToRead(target_);
  golden.BeginToRead(golden_);
  std::vector<PairTask> left_over;
  while (target.IsShort() || golden.IsShort()) {
    target.ShedLast();
    golden.ShedLast();
    if (window.tasks.size() == 1) break;
    left_over.push_back(window.tasks.back());
    window.tasks.pop_back();
    target.PopLast();
    golden.PopLast();
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
