// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "protos/status/mutex.h"
#include "storage/store.h"
#include "tests/support/fake_attachments.h"

namespace msitd::testing {

// A store in memory that keeps the promises of the real one, and that tests can
// make fail and stall. It implements all of its interfaces itself. Thread-safe.
class FakeStore final : public storage::Store,
                        public storage::Runs,
                        public storage::ChunkLog,
                        public storage::RunReaders,
                        public storage::Comparisons,
                        public storage::Upkeep {
 public:
  FakeStore() = default;

  // Makes every later Append return `status`; OK ends this. AwaitFailedAppend
  // returns once an Append has failed.
  void FailAppends(absl::Status status);
  void AwaitFailedAppend();

  // Blocks appends between these two calls. AwaitAppend returns once one is
  // blocked.
  void BlockAppends();
  void AwaitAppend();
  void UnblockAppends();

  // Limits later batches to this number of parts.
  void LimitBatches(size_t part_count);

  // Makes the part at `part_index` of the tensor fail its hash, or the tensor
  // expire.
  void Corrupt(const TensorKey& key, size_t part_index);
  void Expire(const TensorKey& key);

  // Blocks reads of parts between these two calls. AwaitRead returns once one
  // is blocked.
  void BlockReads();
  void AwaitRead();
  void UnblockReads();

  // Return the number of parts read so far, and of tensors looked up by key.
  uint64_t read_part_count();
  uint64_t get_tensor_count();

  // Makes every later write of comparisons return `status`.
  void FailComparisonWrites(absl::Status status);

  // Calls `hook` in every DeleteComparison, before anything is deleted.
  void OnDeleteComparison(std::function<void()> hook);

  // Sets the results of the next calls of Retain, in order. After them, nothing
  // is due.
  void ScriptRetention(
      std::vector<absl::StatusOr<storage::RetentionStep>> steps);
  size_t retain_count();
  // Waits for the `count`th call of Retain, from 1, and returns its policy.
  storage::RetentionPolicy AwaitRetain(size_t count);

  // Sets the results of the next calls of Share, in order. After them, nothing
  // is left.
  void ScriptSharing(std::vector<absl::StatusOr<storage::ShareStep>> steps);
  size_t share_count();
  // Returns once Share was called `count` times.
  void AwaitShare(size_t count);

  // Sets the results of the next calls of Tidy, in order. After them, nothing
  // is left.
  void ScriptTidying(std::vector<absl::StatusOr<bool>> steps);
  // Returns once Tidy was called `count` times.
  void AwaitTidy(size_t count);
  // Sets the results of the next calls of Verify, in order. After them, nothing
  // is left to do.
  void ScriptVerifying(std::vector<absl::StatusOr<storage::VerifyStep>> steps);
  // Returns once Verify was called `count` times.
  void AwaitVerify(size_t count);

  // Sizes of the Append calls that succeeded.
  std::vector<size_t> append_sizes();

  storage::Runs& runs() override { return *this; }
  storage::ChunkLog& log() override { return *this; }
  storage::RunReaders& readers() override { return *this; }
  storage::Comparisons& comparisons() override { return *this; }
  storage::Attachments& attachments() override { return attachments_; }
  storage::Upkeep& upkeep() override { return *this; }

  absl::StatusOr<storage::RunInfo> CreateRun(
      const storage::RunSpec& spec) override;
  absl::StatusOr<storage::RunInfo> GetRun(std::string_view name) override;
  absl::StatusOr<storage::RunInfo> SealRun(std::string_view name) override;
  absl::StatusOr<storage::RunInfo> SetWorldSize(std::string_view name,
                                                int32_t world_size) override;
  absl::StatusOr<storage::RunInfo> SetJob(std::string_view name,
                                          std::string_view job) override;
  absl::StatusOr<storage::RunContinuations> GetContinuations(
      std::string_view name, int32_t rank) override;
  absl::Status SetContinuations(std::string_view name, int32_t rank,
                                const storage::RunContinuations& continuations,
                                bool has_new_job) override;
  absl::StatusOr<storage::RunInfo> EndRestore(std::string_view name) override;
  absl::StatusOr<std::vector<storage::RunInfo>> ListRuns(std::string_view after,
                                                         size_t limit) override;
  absl::Status DeleteRun(std::string_view name) override;
  absl::StatusOr<StreamCoverage> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) override;
  absl::StatusOr<storage::RunInfo> SetCapturePolicy(
      std::string_view name, std::string_view policy) override;
  absl::StatusOr<storage::RunInfo> SetRetention(
      std::string_view name, const storage::RunRetention& retention) override;
  absl::StatusOr<storage::RetentionStep> Retain(
      const storage::RetentionPolicy& policy) override;
  absl::StatusOr<storage::ShareStep> Share() override;
  absl::StatusOr<bool> Tidy() override;
  absl::StatusOr<storage::VerifyStep> Verify(
      const storage::VerifyPolicy& policy) override;
  absl::Status Append(std::span<chunk::Chunk> chunks) override;
  // Returns the result that Append would return.
  absl::Status Probe() override;
  absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                               int32_t rank,
                                               uint64_t stream_id) override;
  absl::StatusOr<bool> HasChunksOfOthers(std::string_view run, int32_t rank,
                                         uint64_t stream_id) override;
  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenRun(
      std::string_view name) override;
  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenRunAsItIs(
      std::string_view name) override;
  absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) override;
  absl::StatusOr<uint64_t> CreateComparisonAs(
      uint64_t wanted, std::string_view document,
      std::span<const std::string> runs) override;
  absl::StatusOr<std::vector<uint64_t>> ListComparisonsOf(
      std::string_view run, uint64_t after, size_t limit) override;
  absl::Status PutComparison(uint64_t id, std::string_view document) override;
  absl::StatusOr<std::string> GetComparison(uint64_t id) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> ListComparisons(
      uint64_t after, size_t limit) override;
  absl::Status DeleteComparison(uint64_t id) override;
  absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                 std::span<const std::string> rows) override;
  absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) override;
  storage::StoreStats Stats() override;
  absl::Status Close() override;

 private:
  class Reader;
  class Batch;

  // Sorts like the primary index. Names are numbers, in the order of their
  // first use.
  using Key = std::tuple<int32_t, uint32_t, int64_t, uint32_t, int32_t, uint8_t,
                         uint32_t>;

  struct Tensor {
    storage::TensorInfo info;
    std::map<uint64_t, storage::PartInfo> parts;  // By offset.
    std::map<uint64_t, Summary> summaries;
  };

  struct Run {
    storage::RunInfo info;
    std::map<Key, Tensor> tensors;
    // By rank and stream id.
    std::map<std::pair<int32_t, uint64_t>, uint64_t> committed;
    std::map<std::pair<int32_t, uint64_t>, StreamCoverage> coverage;
    std::map<int32_t, storage::StreamRepeats> repeats;
    std::vector<storage::Continuation> continuations;
    std::map<int32_t, storage::RankContinuation> continued;  // By rank.
  };

  struct Comparison {
    std::string document;
    std::vector<std::string> runs;
    std::vector<std::string> rows;
  };

  uint32_t Intern(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Key KeyOf(const TensorKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddRecord(Run& run, chunk::Chunk& chunk,
                 const chunk::RecordDescriptor& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const storage::PartInfo& part, AlignedBuffer& buffer);
  // The fields that an alias copies from its original.
  struct Original {
    storage::PartInfo part;
    Summary summary;
    bool is_claimed = false;
  };
  std::optional<Original> FindOriginal(Run& run, const chunk::Chunk& chunk,
                                       const chunk::RecordDescriptor& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns what the first part of a tensor declares about the whole tensor.
  static storage::TensorInfo Describe(TensorKey key, const chunk::Chunk& chunk,
                                      const chunk::RecordDescriptor& record);
  static void CountTensor(const storage::TensorInfo& tensor, Run& run);
  void CountDigest(const chunk::RecordDescriptor& record,
                   storage::StreamRepeats& counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void SetExtras(const chunk::Chunk& chunk,
                        const chunk::RecordDescriptor& record,
                        storage::TensorInfo& out);
  // Returns true if one of `requests` is processed in the token of `key`, or if
  // `requests` is empty.
  bool HasRequest(const Run& run, const TensorKey& key,
                  const std::vector<std::string>& requests)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static bool IsWhole(const Tensor& tensor);
  static storage::TensorInfo InfoOf(const Tensor& tensor);

  Mutex mu_;
  CondVar changed_;
  absl::Status append_status_ ABSL_GUARDED_BY(mu_);
  bool blocked_ ABSL_GUARDED_BY(mu_) = false;
  bool append_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool append_waits_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<size_t> append_sizes_ ABSL_GUARDED_BY(mu_);
  bool reads_blocked_ ABSL_GUARDED_BY(mu_) = false;
  bool read_waits_ ABSL_GUARDED_BY(mu_) = false;
  size_t batch_parts_max_ ABSL_GUARDED_BY(mu_) = storage::kBatchPartsMax;
  uint64_t read_part_count_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t get_tensor_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::function<void()> on_delete_comparison_ ABSL_GUARDED_BY(mu_);
  absl::Status comparison_status_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Run, std::less<>> runs_ ABSL_GUARDED_BY(mu_);
  uint64_t last_run_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, uint32_t, std::less<>> names_ ABSL_GUARDED_BY(mu_);
  // PartPlace::offset is an index into this.
  std::vector<std::string> bytes_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> expired_ ABSL_GUARDED_BY(mu_);  // Of them.
  std::map<uint64_t, Comparison> comparisons_ ABSL_GUARDED_BY(mu_);
  uint64_t last_comparison_id_ ABSL_GUARDED_BY(mu_) = 0;
  storage::StoreStats stats_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::StatusOr<storage::RetentionStep>> retention_steps_
      ABSL_GUARDED_BY(mu_);
  std::vector<storage::RetentionPolicy> retention_policies_
      ABSL_GUARDED_BY(mu_);
  std::deque<absl::StatusOr<storage::ShareStep>> share_steps_
      ABSL_GUARDED_BY(mu_);
  size_t share_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::StatusOr<bool>> tidy_steps_ ABSL_GUARDED_BY(mu_);
  size_t tidy_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<absl::StatusOr<storage::VerifyStep>> verify_steps_
      ABSL_GUARDED_BY(mu_);
  size_t verify_count_ ABSL_GUARDED_BY(mu_) = 0;
  FakeAttachments attachments_{*this};
};

}  // namespace msitd::testing
