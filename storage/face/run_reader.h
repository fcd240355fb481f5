// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Asked now and then by long work; an error ends the work and is its result.
using StopCheck = absl::FunctionRef<absl::Status()>;

// The same of who waits for another machine, on any thread and as long as what
// it was given to lives. Empty: nobody ends the wait.
using WaitCheck = std::function<absl::Status()>;

// Iterates over whole tensors of one run in primary order (rank, device,
// token, op, call, io, index; names in the order of their first appearance)
// as the run was when the scan began. Tensors with a missing part are passed
// over. Thread-compatible; the reader that made it must outlive it.
//
// UNAVAILABLE if the index was opened anew since the scan began: the caller
// begins another scan from position(). NOT_FOUND with RUN_NOT_FOUND if the run
// was deleted since and the scan needs something that has gone.
class TensorScan {
 public:
  virtual ~TensorScan() = default;

  // Puts the next tensor into `out`; false at the end. `out.parts` is filled.
  // `stop` is asked after every few hundred tensors looked at, and after every
  // millisecond or two of matching names, whether or not a tensor is found. A
  // later call goes on where `stop` ended this one.
  virtual absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) = 0;
  absl::StatusOr<bool> Next(TensorInfo& out) {
    return Next(out, [] { return absl::OkStatus(); });
  }

  // Returns opaque bytes that stand for "behind the last tensor looked at": at
  // first where the scan began, and behind a tensor right after Next found it.
  // A later Scan of the same run and selector takes them.
  virtual std::string position() const = 0;

  // Tensors that the selector takes and that Next has passed over, since a part
  // is missing or the parts disagree.
  virtual uint64_t incomplete_count() const = 0;
};

// The most memory that the parts of a batch take together; a single part may
// take more. Parts beyond it are left to the next batch. Parts that have to be
// read alone take their bytes once more.
inline constexpr uint64_t kBatchBytesMax = uint64_t{12} << 20;
// The most parts of a batch.
inline constexpr size_t kBatchPartsMax = 8192;

// The elements of a tensor's sample that lie in one of its parts.
struct SamplePart {
  PartInfo part;
  size_t number = 0;  // Of the part.
  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;
};

inline SamplePart SamplePartOf(const TensorInfo& tensor, size_t number) {
  return {tensor.parts.at(number), number, tensor.dtype, tensor.tensor_bytes};
}

// Reads the bytes of parts that will be asked for while the caller does
// something else. One read takes parts that lie near each other.
//
// Made by RunReader::ReadParts and ReadSamples. Thread-safe.
class PartBatch {
 public:
  // Drops reads that have not begun, and waits for those under way.
  virtual ~PartBatch() = default;

  // How many of the parts that it was made from it has: the first ones; at
  // least one if there were any.
  virtual size_t size() const = 0;

  // Returns the bytes of part `index`, which is below size(), once they are
  // there; they stay until the batch goes. Checks them against the part's hash.
  // Parts are best asked for in their order.
  //
  // Errors: those of RunReader::ReadPart, or ReadSample.
  virtual absl::StatusOr<std::span<const std::byte>> Read(size_t index) = 0;
};

// Reads one run, wherever it lies.
//
// What an implementation promises:
// - Threads: all calls are thread-safe. They may block, on a disk or on a peer;
//   Scan and ReadParts return without having read what they are asked for.
// - The run: a reader stands for the run that had the name when it was opened,
//   and never for a run that gets the name later. Tensors of a run are added,
//   and they may lose their bytes; they do not change otherwise. An answer
//   holds all that was acknowledged before the call.
// - Lifetime: whatever opened the reader outlives it, and it outlives its scans
//   and batches. Returned values are the caller's, except spans.
// - Parts: a PartInfo is valid for any reader of the same run of the same
//   store, now or later. Bytes are checked before they are handed out.
// - Errors: NOT_FOUND with RUN_NOT_FOUND for a run that was deleted;
//   UNAVAILABLE for what may be there later; those that are named below.
class RunReader {
 public:
  virtual ~RunReader() = default;

  // The name of the run.
  virtual const std::string& name() const = 0;

  // True if a scan waits for an answer from afar rather than for a disk or the
  // CPU: several at a time take no longer than one.
  virtual bool is_far() const { return false; }

  // Returns the run as it is now.
  virtual absl::StatusOr<RunInfo> GetInfo() = 0;

  // Returns the coverage that was reported of each rank, ascending by rank.
  virtual absl::StatusOr<std::vector<RankCoverage>> ListCoverage() = 0;

  // Returns the ranks of which the run has tensors, ascending. A tensor with a
  // missing part counts. The cost grows with the number of ranks alone.
  virtual absl::StatusOr<std::vector<int32_t>> ListRanks() = 0;

  // Returns each (rank, device, token) at which the run has tensors and that
  // agrees with the selector's ranks, devices and tokens, in primary order. The
  // cost does not grow with the number of ops.
  virtual absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) = 0;

  // Calls `visit` with each of them in turn; its error ends that, and is the
  // result. A run may have tens of millions: implementations are to hold few of
  // them at a time, which this one does not. `visit` does not call the reader.
  virtual absl::Status VisitCoordinates(
      const Selector& selector,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<Coordinate> coordinates,
                           ListCoordinates(selector));
    for (const Coordinate& coordinate : coordinates) {
      MSITD_RETURN_IF_ERROR(visit(coordinate));
    }
    return absl::OkStatus();
  }

  // The same, but begins after `after`, which an earlier call with the same
  // selector has visited. Lets a caller read the coordinates in batches without
  // keeping them. This one visits those before `after` again.
  virtual absl::Status VisitCoordinatesAfter(
      const Selector& selector, const Coordinate& after,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) {
    bool is_after = false;
    return VisitCoordinates(selector,
                            [&](const Coordinate& coordinate) -> absl::Status {
                              if (is_after) return visit(coordinate);
                              is_after = coordinate == after;
                              return absl::OkStatus();
                            });
  }

  // Returns the placements of the tensors, each once. Costs next to nothing if
  // there are none.
  //
  // Errors: RESOURCE_EXHAUSTED above kRunPlacementsMax.
  virtual absl::StatusOr<std::vector<std::string>> ListPlacements() = 0;

  // Begins a scan; `position` is empty or from an earlier scan.
  //
  // Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID for another position.
  virtual absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) = 0;

  // Returns one whole tensor; `key.run` is not looked at. NOT_FOUND with
  // TENSOR_NOT_FOUND.
  virtual absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) = 0;

  // Reads a part into `buffer`, which is made larger if need be, and returns
  // its bytes there.
  //
  // Errors: DATA_LOSS with FRAME_CORRUPT; NOT_FOUND with TENSOR_EXPIRED if the
  // bytes were given up.
  virtual absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) = 0;

  // Begins to read parts that ReadPart would be asked for one after the other,
  // as many of the first of them as a batch takes. `parts`, `buffer` and the
  // reader outlive the batch. `buffer` is made larger if need be and belongs to
  // the batch while that lives.
  virtual std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                               AlignedBuffer& buffer) = 0;

  // Reads the elements of `tensor`'s sample (protos/base/sample.h) that lie in
  // part number `part`, from the sample that is kept or from the bytes. Returns
  // and fails as ReadPart does; returns nothing if no sampled element lies in
  // the part.
  virtual absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) = 0;

  // Begins to read what ReadSample would be asked for, as ReadParts does;
  // `samples` need not outlive the call. Null if samples are not read ahead.
  virtual std::unique_ptr<PartBatch> ReadSamples(
      std::span<const SamplePart> /*samples*/, AlignedBuffer& /*buffer*/) {
    return nullptr;
  }
};

// Where a run lies, and its name there. An empty source is the store at hand;
// others are what v1::Comparison.golden_source says.
struct RunAddress {
  std::string source;
  std::string name;

  friend bool operator==(const RunAddress&, const RunAddress&) = default;
};

// Opens runs to be read. Thread-safe; outlives the readers.
class RunReaders {
 public:
  virtual ~RunReaders() = default;

  // Opens a run of the store at hand.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND if there is no run of that name;
  // FAILED_PRECONDITION with RUN_RESTORING for one that is being restored.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(
      std::string_view name) = 0;

  // The same for whoever may see a run that is being restored, as far as it has
  // come.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAsItIs(
      std::string_view name) {
    return OpenRun(name);
  }

  // Opens a run wherever it lies. Those who know no other source than the store
  // leave it as it is. `wait` counts for this call and for the reader.
  //
  // Errors: those of OpenRun; INVALID_ARGUMENT with FIELD_INVALID for a
  // source that is not known; those of `wait`.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAt(
      const RunAddress& run, const WaitCheck& /*wait*/) {
    if (run.source.empty()) return OpenRun(run.name);
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "source '{}' cannot be read here", run.source),
                      ErrorReason::kFieldInvalid);
  }

  // The same for whoever reads `beside`, a run of the store at hand, too: what
  // both runs have may be taken from there. `beside` outlives the reader.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunBeside(
      const RunAddress& run, RunReader& /*beside*/, const WaitCheck& wait) {
    return OpenRunAt(run, wait);
  }
};

}  // namespace msitd::storage
