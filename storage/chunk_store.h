// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/aligned_buffer.h"
#include "protos/chunk/chunk.h"
#include "storage/part_batch.h"
#include "storage/types.h"

namespace msitd::storage {

class Env;

struct StoreOptions {
  std::string directory;  // Made if it does not exist; its parent must.

  // A segment that has reached this size is sealed and the next one begun.
  uint64_t segment_bytes_max = uint64_t{1} << 30;

  // O_DIRECT is used where the file system takes it.
  bool direct_io = true;

  // RocksDB memory: memtables, and block cache.
  uint64_t index_write_buffer_bytes = uint64_t{32} << 20;
  uint64_t index_cache_bytes = uint64_t{64} << 20;
};

// Asked now and then by long work; an error ends the work and is its result.
using StopCheck = absl::FunctionRef<absl::Status()>;

// Iterates over whole tensors of one run in primary order (rank, device,
// token, op, call, io, index; names in the order of their first appearance)
// as the store was when the scan began. Tensors with a missing part are
// passed over. Thread-compatible; the store must outlive it.
//
// UNAVAILABLE if the index had to be opened anew since: whoever wants the rest
// begins another one. NOT_FOUND with RUN_NOT_FOUND if the run was deleted since
// and what the scan needs of it has gone.
class TensorScan {
 public:
  virtual ~TensorScan() = default;

  // Puts the next tensor into `out`; false at the end. `out.parts` is filled.
  // `stop` is asked after every few hundred tensors looked at, and after every
  // millisecond or two of matching names, whether or not any is found. Where it
  // stopped, a later call goes on.
  virtual absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) = 0;
  absl::StatusOr<bool> Next(TensorInfo& out) {
    return Next(out, [] { return absl::OkStatus(); });
  }

  // Opaque bytes that stand for "behind the last tensor looked at", which at
  // first is where the scan began and after a tensor was found that tensor, to
  // be given to a later Scan of the same run and selector.
  virtual std::string position() const = 0;
};

// Durable chunks and their index: the one face of the storage layer.
//
// What Append returns OK for survives the end of the process and of power:
// its frames are on the disk, and the index is rebuilt from them where it had
// not been. Frames are never rewritten. A tensor whose frame was torn by a
// crash is never shown.
//
// Thread-safe, but for Append: one thread at a time.
class ChunkStore {
 public:
  // Opens a store, or makes one, and reads back what the index misses.
  //
  // Errors: FAILED_PRECONDITION if another process has it open; DATA_LOSS if
  // what is there is no store of ours; those of the file system.
  static absl::StatusOr<std::unique_ptr<ChunkStore>> Open(
      const StoreOptions& options, Env& env);

  virtual ~ChunkStore() = default;

  // Runs. NOT_FOUND with RUN_NOT_FOUND where there is none of that name,
  // ALREADY_EXISTS with RUN_EXISTS where there is. Changes are durable on
  // return. Sealing a sealed run changes nothing.
  virtual absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec) = 0;
  virtual absl::StatusOr<RunInfo> GetRun(std::string_view name) = 0;
  virtual absl::StatusOr<RunInfo> SealRun(std::string_view name) = 0;
  // Sets the world size of a run that has none yet (0).
  virtual absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                               int32_t world_size) = 0;
  // Says of which launch a run is.
  virtual absl::StatusOr<RunInfo> SetJob(std::string_view name,
                                         std::string_view job) = 0;
  // Returns at most `limit` runs behind `after` in the order of names.
  virtual absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                        size_t limit) = 0;
  // The run is gone on return. What it took, in the index and in segments that
  // only it used, goes at once, or with the next steps of Retain if something
  // else is at work. Like SealRun, blocks on an Append only if that has chunks
  // of the run.
  virtual absl::Status DeleteRun(std::string_view name) = 0;
  // Keeps the newest coverage that a stream tells, and returns by how much the
  // dropped_count of its run has risen. Survives the process on return, and
  // the loss of power like the change of a run that comes next.
  virtual absl::StatusOr<uint64_t> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) = 0;
  // Returns what was told of each rank, in their order.
  virtual absl::StatusOr<std::vector<RankCoverage>> GetCoverage(
      std::string_view run) = 0;

  // Says when bytes of the run may go. Durable on return.
  virtual absl::StatusOr<RunInfo> SetRetention(
      std::string_view name, const RunRetention& retention) = 0;

  // Keeps what the clients of the run are to record. Durable on return.
  virtual absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                                   std::string_view policy) = 0;

  // Gives up bytes of tensors that `policy`, or what their run asks for, does
  // not keep: one bounded step, to be called again until `is_done`. Within a
  // run they go in the order in which they came, frame by frame: one that is
  // not due keeps those behind it. Tensors of which bytes are gone stay, with
  // `has_bytes` false, and ReadPart gives TENSOR_EXPIRED.
  //
  // What lies in the segment in use goes once that is sealed, which this does
  // if it is kSealBytesMin long or kSealAgeMinNs old.
  //
  // Blocks on the disk, and Append for no longer than a file takes to close.
  // Errors: those of the disk and the index; the next call goes on.
  static constexpr uint64_t kSealBytesMin = uint64_t{64} << 20;
  static constexpr int64_t kSealAgeMinNs = int64_t{60} * 1'000'000'000;
  virtual absl::StatusOr<RetentionStep> Retain(
      const RetentionPolicy& policy) = 0;

  // Has parts of the same run that are equal share their bytes, so that they
  // take the room of one: one bounded step, to be called again until `is_done`.
  // Nothing that can be asked of the store changes for that. Looks at each
  // segment once, when it takes no more frames.
  //
  // Blocks on the disk, and Append on the index alone. Errors: those of the
  // disk and the index; the next call goes on.
  virtual absl::StatusOr<ShareStep> Share() = 0;

  // Takes what deleted runs left out of the index: names that no tensor has any
  // more, comparisons of theirs with their rows, and the room of entries. One
  // bounded step; true once nothing is left to do now. Holds up Append for no
  // longer than some hundred names take.
  //
  // Errors: those of the index; the next call goes on.
  virtual absl::StatusOr<bool> Tidy() = 0;

  // Writes the chunks as frames in the order given, makes them durable with
  // one sync, then indexes them. Every record's `summary` and `hash` have been
  // filled in; the headers are stamped here. The first tensor of a key stays:
  // a later record of the same key and part is counted, not indexed; chunks
  // hear how many of theirs have other bytes (Chunk::conflict_count).
  //
  // After an error nothing of this call is visible. The segment in use is
  // given up at its last durable byte and the next call begins another.
  //
  // Errors: NOT_FOUND or FAILED_PRECONDITION (RUN_SEALED) for a run that is
  // not there or sealed, before anything is written; RESOURCE_EXHAUSTED
  // (DISK_FULL); UNAVAILABLE (STORAGE_FAILED).
  virtual absl::Status Append(std::span<chunk::Chunk> chunks) = 0;

  // Finds out whether Append would be let through, after one that was not:
  // makes the next segment, durably, and sees whether the disk has more than
  // kProbeRoomBytes. One thread at a time with Append; errors as Append's.
  static constexpr uint64_t kProbeRoomBytes = uint64_t{16} << 20;
  virtual absl::Status Probe() = 0;

  // Returns how many chunks of the stream are durable: the sequence number of
  // the next one. A stream is one of a rank of a run: the same id of another
  // rank or run is another stream. 0 for an unknown stream or run. Kept until
  // the run is sealed.
  virtual absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) = 0;

  // True if chunks of the rank are durable that came from another process than
  // the stream does; see protos/base/stream_id.h. False for an unknown run, or
  // a sealed one.
  virtual absl::StatusOr<bool> HasChunksOfOthers(std::string_view run,
                                                 int32_t rank,
                                                 uint64_t stream_id) = 0;

  // Returns one whole tensor. NOT_FOUND with TENSOR_NOT_FOUND.
  virtual absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) = 0;

  // Begins a scan; `position` is empty or from an earlier scan.
  virtual absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      std::string_view run, TensorSelector selector,
      std::string_view position) = 0;

  // Returns where the run has tensors that agree with the ranks, devices and
  // tokens of the selector, in primary order. Seeks from one to the next: the
  // cost does not grow with the number of ops.
  virtual absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      std::string_view run, const TensorSelector& selector) = 0;

  // Returns the ranks of which the run has tensors, ascending; one of which a
  // part is missing counts. Seeks from one to the next.
  virtual absl::StatusOr<std::vector<int32_t>> ListRanks(
      std::string_view run) = 0;

  // Returns the placements of the tensors of a run, each once. Costs nothing to
  // speak of if there are none.
  //
  // Errors: RESOURCE_EXHAUSTED above kRunPlacementsMax.
  virtual absl::StatusOr<std::vector<std::string>> ListPlacements(
      std::string_view run) = 0;

  // Reads a part into `buffer`, which is made larger if need be, and returns
  // its bytes there. Checks them against the part's hash.
  //
  // Errors: DATA_LOSS with FRAME_CORRUPT; NOT_FOUND with TENSOR_EXPIRED if the
  // bytes were given up.
  virtual absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartLocation& part, AlignedBuffer& buffer) = 0;

  // Begins to read parts that ReadPart would be asked for one after the other,
  // as many of the first of them as a batch takes. `parts` and the store
  // outlive the batch; so does `buffer`, which is made larger if need be and
  // belongs to the batch until then.
  virtual std::unique_ptr<PartBatch> ReadParts(
      std::span<const PartLocation> parts, AlignedBuffer& buffer) = 0;

  // Reads what of the sample of `tensor` (protos/base/sample.h) lies in part
  // `part`, as ReadPart does: from the sample that is kept, or from the bytes.
  // Reads nothing if none of it does.
  virtual absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) = 0;

  // Comparisons: documents and their rows, opaque to the store. Ids ascend
  // from 1, rows from 0. Documents are durable on return; rows with the next
  // document. FAILED_PRECONDITION for rows that would leave a gap. A comparison
  // goes with the last of `runs` that is deleted, in the background.
  virtual absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) = 0;
  virtual absl::Status PutComparison(uint64_t id,
                                     std::string_view document) = 0;
  virtual absl::StatusOr<std::string> GetComparison(uint64_t id) = 0;
  virtual absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
  ListComparisons(uint64_t after, size_t limit) = 0;
  virtual absl::Status DeleteComparison(uint64_t id) = 0;
  virtual absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                         std::span<const std::string> rows) = 0;
  virtual absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) = 0;

  virtual StoreStats Stats() = 0;

  // Makes everything durable, index included, so that the next Open has
  // nothing to read back. Called once, after the last Append.
  virtual absl::Status Close() = 0;
};

}  // namespace msitd::storage
