// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_store.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "protos/base/request.h"
#include "protos/base/sample.h"
#include "protos/base/stream_id.h"
#include "protos/status/status.h"

namespace msitd::testing {
namespace {

using Code = absl::StatusCode;
using storage::RunInfo;
using storage::TensorInfo;

absl::Status RunNotFound(std::string_view name) {
  return WithReason(MakeStatus(Code::kNotFound, "no run '{}'", name),
                    ErrorReason::kRunNotFound);
}

absl::Status Expired() {
  return WithReason(MakeStatus(Code::kNotFound, "the bytes are not kept"),
                    ErrorReason::kTensorExpired);
}

absl::Status ComparisonNotFound(uint64_t id) {
  return WithReason(MakeStatus(Code::kNotFound, "no comparison {}", id),
                    ErrorReason::kComparisonNotFound);
}

class FakeScan final : public storage::TensorScan {
 public:
  FakeScan(std::vector<TensorInfo> tensors, size_t next)
      : tensors_(std::move(tensors)), next_(next) {}

  absl::StatusOr<bool> Next(TensorInfo& out, storage::StopCheck stop) override {
    if (next_ % kTensorsPerQuestion == 0) MSITD_RETURN_IF_ERROR(stop());
    if (next_ >= tensors_.size()) return false;
    out = tensors_[next_++];
    return true;
  }
  std::string position() const override { return std::to_string(next_); }
  // All tensors arrive complete.
  uint64_t incomplete_count() const override { return 0; }

 private:
  static constexpr size_t kTensorsPerQuestion = 256;

  const std::vector<TensorInfo> tensors_;
  size_t next_;
};

}  // namespace

// Reads each part when it is requested.
class FakeStore::Batch final : public storage::PartBatch {
 public:
  Batch(FakeStore& store, std::span<const storage::PartInfo> parts)
      : store_(store), parts_(parts), buffers_(parts.size()) {}

  size_t size() const override { return parts_.size(); }

  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
    return store_.ReadPart(parts_[index], buffers_[index]);
  }

 private:
  FakeStore& store_;
  const std::span<const storage::PartInfo> parts_;
  std::vector<AlignedBuffer> buffers_;
};

class FakeStore::Reader final : public storage::RunReader {
 public:
  Reader(FakeStore& store, const RunInfo& run)
      : store_(store), id_(run.id), name_(run.spec.name) {}

  const std::string& name() const override { return name_; }

  absl::StatusOr<RunInfo> GetInfo() override {
    MutexLock lock(store_.mu_);
    MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
    return run->info;
  }

  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage() override;
  absl::StatusOr<std::vector<int32_t>> ListRanks() override;
  absl::StatusOr<std::vector<storage::Coordinate>> ListCoordinates(
      const Selector& selector) override;
  absl::StatusOr<std::vector<std::string>> ListPlacements() override;
  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      Selector selector, std::string_view position) override;
  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override;

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const storage::PartInfo& part, AlignedBuffer& buffer) override {
    return store_.ReadPart(part, buffer);
  }

  std::unique_ptr<storage::PartBatch> ReadParts(
      std::span<const storage::PartInfo> parts,
      AlignedBuffer& /*buffer*/) override {
    const MutexLock lock(store_.mu_);
    return std::make_unique<Batch>(
        store_, parts.first(std::min(parts.size(), store_.batch_parts_max_)));
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override;

 private:
  absl::StatusOr<Run*> Find() ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_.mu_) {
    const auto it = store_.runs_.find(name_);
    if (it == store_.runs_.end() || it->second.info.id != id_) {
      return RunNotFound(name_);
    }
    return &it->second;
  }

  FakeStore& store_;
  const storage::RunId id_;
  const std::string name_;
};

absl::StatusOr<std::unique_ptr<storage::RunReader>> FakeStore::OpenRun(
    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo run, GetRun(name));
  if (run.spec.restoring) return storage::RunRestoring(name);
  return OpenRunAsItIs(name);
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> FakeStore::OpenRunAsItIs(
    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const RunInfo run, GetRun(name));
  return std::make_unique<Reader>(*this, run);
}

void FakeStore::FailAppends(absl::Status status) {
  MutexLock lock(mu_);
  append_status_ = std::move(status);
  append_failed_ = false;
}

void FakeStore::AwaitFailedAppend() {
  MutexLock lock(mu_);
  while (!append_failed_) changed_.Wait(mu_);
}

void FakeStore::BlockAppends() {
  MutexLock lock(mu_);
  blocked_ = true;
}

void FakeStore::AwaitAppend() {
  MutexLock lock(mu_);
  while (!append_waits_) changed_.Wait(mu_);
}

void FakeStore::UnblockAppends() {
  MutexLock lock(mu_);
  blocked_ = false;
  changed_.NotifyAll();
}

void FakeStore::Corrupt(const TensorKey& key, size_t part_index) {
  MutexLock lock(mu_);
  auto part = runs_.at(key.run).tensors.at(KeyOf(key)).parts.begin();
  std::advance(part, part_index);
  bytes_[part->second.place.offset][0] ^= 1;
}

void FakeStore::Expire(const TensorKey& key) {
  MutexLock lock(mu_);
  Tensor& tensor = runs_.at(key.run).tensors.at(KeyOf(key));
  for (auto& [offset, part] : tensor.parts) {
    part.has_bytes = part.has_sample = false;
    expired_.insert(part.place.offset);
  }
}

void FakeStore::BlockReads() {
  MutexLock lock(mu_);
  reads_blocked_ = true;
}

void FakeStore::AwaitRead() {
  MutexLock lock(mu_);
  while (!read_waits_) changed_.Wait(mu_);
}

void FakeStore::UnblockReads() {
  MutexLock lock(mu_);
  reads_blocked_ = false;
  changed_.NotifyAll();
}

uint64_t FakeStore::read_part_count() {
  MutexLock lock(mu_);
  return read_part_count_;
}

uint64_t FakeStore::get_tensor_count() {
  MutexLock lock(mu_);
  return get_tensor_count_;
}

void FakeStore::FailComparisonWrites(absl::Status status) {
  MutexLock lock(mu_);
  comparison_status_ = std::move(status);
}

std::vector<size_t> FakeStore::append_sizes() {
  MutexLock lock(mu_);
  return append_sizes_;
}

absl::StatusOr<RunInfo> FakeStore::CreateRun(const storage::RunSpec& spec) {
  MutexLock lock(mu_);
  const auto [it, created] = runs_.try_emplace(spec.name);
  if (!created) {
    return WithReason(
        MakeStatus(Code::kAlreadyExists, "run '{}' exists already", spec.name),
        ErrorReason::kRunExists);
  }
  RunInfo& info = it->second.info;
  info.id = storage::RunId{++last_run_id_};
  info.spec = spec;
  info.create_time_ns = 1'000'000'000 * static_cast<int64_t>(last_run_id_);
  return info;
}

absl::StatusOr<RunInfo> FakeStore::GetRun(std::string_view name) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  return it->second.info;
}

absl::StatusOr<RunInfo> FakeStore::SealRun(std::string_view name) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  RunInfo& info = it->second.info;
  if (!info.sealed) info.seal_time_ns = info.create_time_ns + 1;
  info.sealed = true;
  return info;
}

absl::StatusOr<RunInfo> FakeStore::SetJob(std::string_view name,
                                          std::string_view job) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  it->second.info.spec.job = job;
  return it->second.info;
}

absl::StatusOr<RunInfo> FakeStore::EndRestore(std::string_view name) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  it->second.info.spec.restoring = false;
  return it->second.info;
}

absl::StatusOr<RunInfo> FakeStore::SetWorldSize(std::string_view name,
                                                int32_t world_size) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  it->second.info.spec.world_size = world_size;
  return it->second.info;
}

absl::StatusOr<std::vector<RunInfo>> FakeStore::ListRuns(std::string_view after,
                                                         size_t limit) {
  MutexLock lock(mu_);
  std::vector<RunInfo> out;
  for (auto it = runs_.upper_bound(after);
       it != runs_.end() && out.size() < limit; ++it) {
    out.push_back(it->second.info);
  }
  return out;
}

absl::Status FakeStore::DeleteRun(std::string_view name) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  for (auto at = comparisons_.begin(); at != comparisons_.end();) {
    std::vector<std::string>& runs = at->second.runs;
    const bool has_left = std::erase(runs, name) > 0;
    at = has_left && runs.empty() ? comparisons_.erase(at) : std::next(at);
  }
  runs_.erase(it);
  return absl::OkStatus();
}

absl::StatusOr<RunInfo> FakeStore::SetCapturePolicy(std::string_view name,
                                                    std::string_view policy) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  it->second.info.capture_policy = policy;
  return it->second.info;
}

absl::StatusOr<RunInfo> FakeStore::SetRetention(
    std::string_view name, const storage::RunRetention& retention) {
  MutexLock lock(mu_);
  const auto it = runs_.find(name);
  if (it == runs_.end()) return RunNotFound(name);
  it->second.info.retention = retention;
  return it->second.info;
}

void FakeStore::ScriptRetention(
    std::vector<absl::StatusOr<storage::RetentionStep>> steps) {
  MutexLock lock(mu_);
  retention_steps_.assign(steps.begin(), steps.end());
}

size_t FakeStore::retain_count() {
  MutexLock lock(mu_);
  return retention_policies_.size();
}

storage::RetentionPolicy FakeStore::AwaitRetain(size_t count) {
  MutexLock lock(mu_);
  while (retention_policies_.size() < count) changed_.Wait(mu_);
  return retention_policies_[count - 1];
}

absl::StatusOr<storage::RetentionStep> FakeStore::Retain(
    const storage::RetentionPolicy& policy) {
  MutexLock lock(mu_);
  retention_policies_.push_back(policy);
  changed_.NotifyAll();
  if (retention_steps_.empty()) return storage::RetentionStep();
  absl::StatusOr<storage::RetentionStep> step = retention_steps_.front();
  retention_steps_.pop_front();
  return step;
}

void FakeStore::ScriptSharing(
    std::vector<absl::StatusOr<storage::ShareStep>> steps) {
  MutexLock lock(mu_);
  share_steps_.assign(steps.begin(), steps.end());
}

size_t FakeStore::share_count() {
  MutexLock lock(mu_);
  return share_count_;
}

void FakeStore::AwaitShare(size_t count) {
  MutexLock lock(mu_);
  while (share_count_ < count) changed_.Wait(mu_);
}

absl::StatusOr<storage::ShareStep> FakeStore::Share() {
  MutexLock lock(mu_);
  ++share_count_;
  changed_.NotifyAll();
  if (share_steps_.empty()) return storage::ShareStep();
  absl::StatusOr<storage::ShareStep> step = share_steps_.front();
  share_steps_.pop_front();
  return step;
}

void FakeStore::ScriptTidying(std::vector<absl::StatusOr<bool>> steps) {
  MutexLock lock(mu_);
  tidy_steps_.assign(steps.begin(), steps.end());
}

void FakeStore::AwaitTidy(size_t count) {
  MutexLock lock(mu_);
  while (tidy_count_ < count) changed_.Wait(mu_);
}

absl::StatusOr<bool> FakeStore::Tidy() {
  MutexLock lock(mu_);
  ++tidy_count_;
  changed_.NotifyAll();
  if (tidy_steps_.empty()) return true;
  const absl::Status status = tidy_steps_.front().status();
  const bool is_done = tidy_steps_.front().value_or(false);
  tidy_steps_.pop_front();
  if (!status.ok()) return status;
  return is_done;
}

void FakeStore::ScriptVerifying(
    std::vector<absl::StatusOr<storage::VerifyStep>> steps) {
  MutexLock lock(mu_);
  verify_steps_.assign(steps.begin(), steps.end());
}

void FakeStore::AwaitVerify(size_t count) {
  MutexLock lock(mu_);
  while (verify_count_ < count) changed_.Wait(mu_);
}

absl::StatusOr<storage::VerifyStep> FakeStore::Verify(
    const storage::VerifyPolicy& /*policy*/) {
  MutexLock lock(mu_);
  ++verify_count_;
  changed_.NotifyAll();
  if (verify_steps_.empty()) return storage::VerifyStep();
  absl::StatusOr<storage::VerifyStep> step = std::move(verify_steps_.front());
  verify_steps_.pop_front();
  return step;
}

absl::StatusOr<StreamCoverage> FakeStore::ReportCoverage(
    std::string_view run, int32_t rank, uint64_t stream_id,
    const StreamCoverage& coverage) {
  MutexLock lock(mu_);
  const auto it = runs_.find(run);
  if (it == runs_.end()) return RunNotFound(run);
  StreamCoverage& kept = it->second.coverage[{rank, stream_id}];
  const StreamCoverage before = std::exchange(kept, Newer(kept, coverage));
  storage::RunCounters& counters = it->second.info.counters;
  const StreamCoverage rise = Rise(before, kept);
  counters.dropped_count += rise.dropped_count;
  counters.truncated_count += rise.truncated_count;
  return rise;
}

absl::StatusOr<std::vector<storage::RankCoverage>>
FakeStore::Reader::ListCoverage() {
  MutexLock lock(store_.mu_);
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  std::map<int32_t, storage::RankCoverage> ranks;
  for (const auto& [stream, coverage] : run->coverage) {
    storage::RankCoverage& rank = ranks[stream.first];
    ++rank.stream_count;
    rank.total = Sum(rank.total, coverage);
  }
  for (const auto& [number, repeats] : run->repeats) {
    ranks[number].repeats = repeats;
  }
  std::vector<storage::RankCoverage> out;
  for (auto& [number, rank] : ranks) {
    rank.rank = number;
    out.push_back(rank);
  }
  return out;
}

absl::Status FakeStore::Append(std::span<chunk::Chunk> chunks) {
  MutexLock lock(mu_);
  append_waits_ = true;
  changed_.NotifyAll();
  while (blocked_) changed_.Wait(mu_);
  append_waits_ = false;
  for (const chunk::Chunk& chunk : chunks) {
    const auto it = runs_.find(chunk.run());
    if (it == runs_.end()) return RunNotFound(chunk.run());
    if (it->second.info.sealed) {
      return WithReason(MakeStatus(Code::kFailedPrecondition,
                                   "run '{}' is sealed", chunk.run()),
                        ErrorReason::kRunSealed);
    }
  }
  if (!append_status_.ok()) {
    append_failed_ = true;
    changed_.NotifyAll();
    return append_status_;
  }
  append_sizes_.push_back(chunks.size());
  for (chunk::Chunk& chunk : chunks) {
    Run& run = runs_.find(chunk.run())->second;
    for (const chunk::RecordDescriptor& record : chunk.records()) {
      AddRecord(run, chunk, record);
      run.info.counters.token_end =
          std::max(run.info.counters.token_end, int64_t{record.token} + 1);
    }
    run.committed[{chunk.header().rank, chunk.header().stream_id}] =
        chunk.header().chunk_sequence + 1;
    ++stats_.committed_chunk_count;
  }
  return absl::OkStatus();
}

absl::Status FakeStore::Probe() {
  MutexLock lock(mu_);
  return append_status_;
}

bool FakeStore::IsWhole(const Tensor& tensor) {
  return tensor.parts.size() == chunk::PartCount(tensor.info.tensor_bytes);
}

TensorInfo FakeStore::InfoOf(const Tensor& tensor) {
  TensorInfo info = tensor.info;
  std::vector<ContentHash> hashes;
  info.parts.clear();
  info.has_bytes = info.has_sample = info.kind != RecordKind::kStatistics;
  for (const auto& [offset, part] : tensor.parts) {
    info.parts.push_back(part);
    hashes.push_back(part.hash);
    info.has_bytes &= part.has_bytes;
    info.has_sample &= part.has_bytes || part.has_sample;
  }
  info.has_sample &= !info.has_bytes;
  info.summary = Summary{};
  for (const auto& [offset, summary] : tensor.summaries) {
    info.summary = offset == 0 ? summary : Merge(info.summary, summary);
  }
  info.hash = chunk::CombinePartHashes(hashes);
  return info;
}

uint32_t FakeStore::Intern(std::string_view name) {
  return names_
      .try_emplace(std::string(name), static_cast<uint32_t>(names_.size()))
      .first->second;
}

FakeStore::Key FakeStore::KeyOf(const TensorKey& key) {
  return {key.rank,         Intern(key.device), key.token,
          Intern(key.op),   key.call,           static_cast<uint8_t>(key.io),
          Intern(key.index)};
}

absl::StatusOr<bool> FakeStore::HasChunksOfOthers(std::string_view run,
                                                  int32_t rank,
                                                  uint64_t stream_id) {
  MutexLock lock(mu_);
  const auto found = runs_.find(run);
  if (found == runs_.end() || found->second.info.sealed) return false;
  const auto& streams = found->second.committed;
  return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
    return stream.first.first == rank && stream.first.second != stream_id;
  });
}

absl::StatusOr<uint64_t> FakeStore::CommittedChunkCount(std::string_view run,
                                                        int32_t rank,
                                                        uint64_t stream_id) {
  MutexLock lock(mu_);
  const auto found = runs_.find(run);
  if (found == runs_.end()) return 0;
  const auto& committed = found->second.committed;
  const auto it = committed.find({rank, stream_id});
  return it == committed.end() ? 0 : it->second;
}

absl::StatusOr<TensorInfo> FakeStore::Reader::GetTensor(const TensorKey& key) {
  MutexLock lock(store_.mu_);
  ++store_.get_tensor_count_;
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  const auto it = run->tensors.find(store_.KeyOf(key));
  if (it != run->tensors.end() && IsWhole(it->second)) {
    return InfoOf(it->second);
  }
  return WithReason(MakeStatus(Code::kNotFound, "no such tensor"),
                    ErrorReason::kTensorNotFound);
}

bool FakeStore::HasRequest(const Run& run, const TensorKey& key,
                           const std::vector<std::string>& requests) {
  if (requests.empty()) return true;
  for (const std::string& id : requests) {
    const Key of_request =
        KeyOf({"", key.rank, std::string(kRequestDevice), key.token,
               std::string(kRequestOpPrefix) + id, 0, Io::kState, ""});
    if (run.tensors.contains(of_request)) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<storage::TensorScan>> FakeStore::Reader::Scan(
    Selector selector, std::string_view position) {
  MutexLock lock(store_.mu_);
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  std::vector<TensorInfo> tensors;
  for (const auto& [key, tensor] : run->tensors) {
    if (IsWhole(tensor) && selector.Matches(tensor.info.key) &&
        selector.HasKind(tensor.info.kind) &&
        store_.HasRequest(*run, tensor.info.key, selector.requests)) {
      tensors.push_back(InfoOf(tensor));
    }
  }
  const size_t next = position.empty() ? 0 : std::stoul(std::string(position));
  return std::make_unique<FakeScan>(std::move(tensors), next);
}

absl::StatusOr<std::vector<storage::Coordinate>>
FakeStore::Reader::ListCoordinates(const Selector& selector) {
  MutexLock lock(store_.mu_);
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  const Selector places{selector.ranks, selector.devices, selector.tokens};
  std::vector<storage::Coordinate> out;
  for (const auto& [key, tensor] : run->tensors) {
    const TensorKey& k = tensor.info.key;
    storage::Coordinate place{k.rank, k.device, k.token};
    if (!IsWhole(tensor) || !places.Matches(k)) continue;
    if (out.empty() || !(out.back() == place)) out.push_back(std::move(place));
  }
  return out;
}

absl::StatusOr<std::vector<int32_t>> FakeStore::Reader::ListRanks() {
  MutexLock lock(store_.mu_);
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  std::set<int32_t> ranks;
  for (const auto& [key, tensor] : run->tensors) {
    ranks.insert(tensor.info.key.rank);
  }
  return std::vector<int32_t>(ranks.begin(), ranks.end());
}

absl::StatusOr<std::vector<std::string>> FakeStore::Reader::ListPlacements() {
  MutexLock lock(store_.mu_);
  MSITD_ASSIGN_OR_RETURN(const Run* const run, Find());
  std::set<std::string> placements;
  for (const auto& [key, tensor] : run->tensors) {
    placements.insert(tensor.info.placement);
  }
  placements.erase("");
  return std::vector<std::string>(placements.begin(), placements.end());
}

absl::StatusOr<std::span<const std::byte>> FakeStore::ReadPart(
    const storage::PartInfo& part, AlignedBuffer& buffer) {
  if (!part.has_bytes) return Expired();
  MutexLock lock(mu_);
  read_waits_ = reads_blocked_;
  changed_.NotifyAll();
  while (reads_blocked_) changed_.Wait(mu_);
  read_waits_ = false;
  ++read_part_count_;
  if (expired_.contains(part.place.offset)) return Expired();
  const std::string& bytes = bytes_.at(part.place.offset);
  if (buffer.size() < bytes.size()) buffer = AlignedBuffer(bytes.size());
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  const std::span<const std::byte> out = buffer.span().first(bytes.size());
  // The bytes of a value are its text, so they have the same hash.
  if (!out.empty() && !(chunk::HashBytes(out) == part.hash)) {
    return WithReason(MakeStatus(Code::kDataLoss, "a part fails its hash"),
                      ErrorReason::kFrameCorrupt);
  }
  return out;
}

void FakeStore::LimitBatches(size_t part_count) {
  const MutexLock lock(mu_);
  batch_parts_max_ = part_count;
}

absl::StatusOr<std::span<const std::byte>> FakeStore::Reader::ReadSample(
    const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) {
  storage::PartInfo whole = tensor.parts.at(part);
  if (!whole.has_bytes && !whole.has_sample) return Expired();
  const SampleSlice slice = SampleOf(
      TensorPart{tensor.dtype, tensor.tensor_bytes, part * kPartBytes});
  whole.has_bytes = true;
  const auto bytes = ReadPart(whole, buffer);
  if (!bytes.ok()) return bytes.status();
  GatherSample(slice, *bytes, buffer.span());
  return std::span<const std::byte>(buffer.span()).first(slice.bytes());
}

absl::StatusOr<uint64_t> FakeStore::CreateComparison(
    std::string_view document, std::span<const std::string> runs) {
  MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(comparison_status_);
  for (const std::string& run : runs) {
    if (!runs_.contains(run)) return RunNotFound(run);
  }
  Comparison& comparison = comparisons_[++last_comparison_id_];
  comparison.document = document;
  comparison.runs.assign(runs.begin(), runs.end());
  return last_comparison_id_;
}

absl::StatusOr<uint64_t> FakeStore::CreateComparisonAs(
    uint64_t wanted, std::string_view document,
    std::span<const std::string> runs) {
  {
    MutexLock lock(mu_);
    if (wanted > last_comparison_id_) last_comparison_id_ = wanted - 1;
  }
  return CreateComparison(document, runs);
}

absl::StatusOr<std::vector<uint64_t>> FakeStore::ListComparisonsOf(
    std::string_view run, uint64_t after, size_t limit) {
  MutexLock lock(mu_);
  std::vector<uint64_t> out;
  for (const auto& [id, comparison] : comparisons_) {
    const auto& runs = comparison.runs;
    if (id > after && out.size() < limit &&
        std::find(runs.begin(), runs.end(), run) != runs.end()) {
      out.push_back(id);
    }
  }
  return out;
}

absl::Status FakeStore::PutComparison(uint64_t id, std::string_view document) {
  MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(comparison_status_);
  const auto it = comparisons_.find(id);
  if (it == comparisons_.end()) return ComparisonNotFound(id);
  it->second.document = document;
  return absl::OkStatus();
}

absl::StatusOr<std::string> FakeStore::GetComparison(uint64_t id) {
  MutexLock lock(mu_);
  const auto it = comparisons_.find(id);
  if (it == comparisons_.end()) return ComparisonNotFound(id);
  return it->second.document;
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
FakeStore::ListComparisons(uint64_t after, size_t limit) {
  MutexLock lock(mu_);
  std::vector<std::pair<uint64_t, std::string>> out;
  for (auto it = comparisons_.upper_bound(after);
       it != comparisons_.end() && out.size() < limit; ++it) {
    out.emplace_back(it->first, it->second.document);
  }
  return out;
}

void FakeStore::OnDeleteComparison(std::function<void()> hook) {
  MutexLock lock(mu_);
  on_delete_comparison_ = std::move(hook);
}

absl::Status FakeStore::DeleteComparison(uint64_t id) {
  std::function<void()> hook;
  {
    MutexLock lock(mu_);
    hook = on_delete_comparison_;
  }
  if (hook) hook();
  MutexLock lock(mu_);
  if (comparisons_.erase(id) == 0) return ComparisonNotFound(id);
  return absl::OkStatus();
}

absl::Status FakeStore::PutComparisonRows(uint64_t id, uint64_t first_row,
                                          std::span<const std::string> rows) {
  MutexLock lock(mu_);
  MSITD_RETURN_IF_ERROR(comparison_status_);
  const auto it = comparisons_.find(id);
  if (it == comparisons_.end()) return ComparisonNotFound(id);
  std::vector<std::string>& all = it->second.rows;
  if (first_row > all.size()) {
    return absl::FailedPreconditionError("rows are missing");
  }
  all.resize(std::max<size_t>(all.size(), first_row + rows.size()));
  std::copy(rows.begin(), rows.end(),
            all.begin() + static_cast<ptrdiff_t>(first_row));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FakeStore::GetComparisonRows(
    uint64_t id, uint64_t first_row, size_t limit) {
  MutexLock lock(mu_);
  const auto it = comparisons_.find(id);
  if (it == comparisons_.end()) return ComparisonNotFound(id);
  std::vector<std::string> out;
  const std::vector<std::string>& all = it->second.rows;
  for (size_t i = first_row; i < all.size() && out.size() < limit; ++i) {
    out.push_back(all[i]);
  }
  return out;
}

storage::StoreStats FakeStore::Stats() {
  MutexLock lock(mu_);
  storage::StoreStats stats = stats_;
  stats.run_count = runs_.size();
  return stats;
}

absl::Status FakeStore::Close() { return absl::OkStatus(); }

}  // namespace msitd::testing
