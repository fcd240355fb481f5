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

// Called regularly by long operations. An error stops the operation and becomes
// its result.
using StopCheck = absl::FunctionRef<absl::Status()>;

// As StopCheck, for operations that wait for another machine. It may be called
// on any thread for the lifetime of the object that received it. If empty, the
// wait is not limited.
using WaitCheck = std::function<absl::Status()>;

// Iterates over the complete tensors of one run in primary order (rank, device,
// token, op, call, io, index; names in the order of their first appearance), as
// of the beginning of the scan. Tensors with missing parts are skipped.
// Thread-compatible; the reader that created it must outlive it.
//
// UNAVAILABLE if the index was reopened since the scan began: the caller begins
// another scan from position(). NOT_FOUND with RUN_NOT_FOUND if the run was
// deleted in the meantime and the scan needs removed data.
class TensorScan {
 public:
  virtual ~TensorScan() = default;

  // Stores the next tensor in `out`, including `out.parts`; false at the end.
  // Calls `stop` after every few hundred examined tensors, and after every
  // millisecond or two of matching names, whether or not a tensor is found. A
  // later call continues where `stop` ended this one.
  virtual absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) = 0;
  absl::StatusOr<bool> Next(TensorInfo& out) {
    return Next(out, [] { return absl::OkStatus(); });
  }

  // Returns opaque bytes for the position after the last examined tensor.
  // Initially this is the start of the scan; directly after Next has returned a
  // tensor, it is the position after that tensor. A later Scan of the same run
  // and selector accepts it.
  virtual std::string position() const = 0;

  // Number of tensors that match the selector but that Next skipped, because a
  // part is missing or the parts are inconsistent.
  virtual uint64_t incomplete_count() const = 0;
};

// Maximum memory for the parts of a batch; a single part may exceed it. Further
// parts are left to the next batch. Parts that must be read separately need
// additional memory of their size.
inline constexpr uint64_t kBatchBytesMax = uint64_t{12} << 20;
// Maximum number of parts in a batch.
inline constexpr size_t kBatchPartsMax = 8192;

// The elements of a tensor's sample that are in one of its parts.
struct SamplePart {
  PartInfo part;
  size_t number = 0;  // Number of the part.
  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;
};

inline SamplePart SamplePartOf(const TensorInfo& tensor, size_t number) {
  return {tensor.parts.at(number), number, tensor.dtype, tensor.tensor_bytes};
}

// Reads the bytes of parts in the background before they are requested. One
// read covers parts that are close to each other.
//
// Created by RunReader::ReadParts and ReadSamples. Thread-safe.
class PartBatch {
 public:
  // Drops reads that have not begun, and waits for the others.
  virtual ~PartBatch() = default;

  // Number of parts in the batch, counted from the first of those it was
  // created from; at least one if there were any.
  virtual size_t size() const = 0;

  // Waits for and returns the bytes of part `index`, which must be below
  // size(). They are valid until the batch is destroyed, and have been checked
  // against the part's hash. Parts should be requested in order.
  //
  // Errors: those of RunReader::ReadPart, or ReadSample.
  virtual absl::StatusOr<std::span<const std::byte>> Read(size_t index) = 0;
};

// Reads one run, regardless of where it is stored.
//
// Contract of an implementation:
// - Threads: all calls are thread-safe. They may block on a disk or on a peer;
//   Scan and ReadParts return without having read the requested data.
// - The run: a reader refers to the run that had the name when it was opened,
//   and never to a run that gets the name later. Tensors of a run may be added
//   and may lose their bytes; they do not change otherwise. A result includes
//   everything that was acknowledged before the call.
// - Lifetime: the object that opened the reader must outlive it, and the reader
//   must outlive its scans and batches. Returned values belong to the caller,
//   except spans.
// - Parts: a PartInfo is valid for any reader of the same run of the same
//   store, now or later. Bytes are checked before they are returned.
// - Errors: NOT_FOUND with RUN_NOT_FOUND for a run that was deleted;
//   UNAVAILABLE for data that may be available later; those listed at the
//   methods.
class RunReader {
 public:
  virtual ~RunReader() = default;

  // The name of the run.
  virtual const std::string& name() const = 0;

  // True if a scan waits for a remote peer rather than for a disk or the CPU,
  // so that several concurrent scans take no longer than one.
  virtual bool is_far() const { return false; }

  // Returns the current state of the run.
  virtual absl::StatusOr<RunInfo> GetInfo() = 0;

  // Returns the reported coverage of each rank, ascending by rank.
  virtual absl::StatusOr<std::vector<RankCoverage>> ListCoverage() = 0;

  // Returns the ranks that have tensors in the run, ascending. Tensors with
  // missing parts count. The cost depends only on the number of ranks.
  virtual absl::StatusOr<std::vector<int32_t>> ListRanks() = 0;

  // Returns each (rank, device, token) that has tensors in the run and matches
  // the selector's ranks, devices and tokens, in primary order. The cost does
  // not depend on the number of ops.
  virtual absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) = 0;

  // Calls `visit` with each coordinate in order. An error of `visit` stops the
  // iteration and becomes its result. A run may have tens of millions of
  // coordinates; unlike this default, implementations should keep only few of
  // them in memory. `visit` must not call the reader.
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

  // As VisitCoordinates, but begins after `after`, which an earlier call with
  // the same selector has visited. With this, a caller can read the coordinates
  // in batches without storing them. This default visits those before `after`
  // again.
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

  // Returns the distinct placements of the tensors. Very cheap if there are
  // none.
  //
  // Errors: RESOURCE_EXHAUSTED above kRunPlacementsMax.
  virtual absl::StatusOr<std::vector<std::string>> ListPlacements() = 0;

  // Begins a scan; `position` must be empty or from an earlier scan.
  //
  // Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID for any other position.
  virtual absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) = 0;

  // Returns one complete tensor; ignores `key.run`. NOT_FOUND with
  // TENSOR_NOT_FOUND.
  virtual absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) = 0;

  // Reads a part into `buffer`, which is enlarged if necessary, and returns its
  // bytes there.
  //
  // Errors: DATA_LOSS with FRAME_CORRUPT; NOT_FOUND with TENSOR_EXPIRED if the
  // bytes were discarded.
  virtual absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) = 0;

  // Begins to read parts that the caller would otherwise read with ReadPart one
  // after the other: the first ones, as many as fit into a batch. `parts`,
  // `buffer` and the reader must outlive the batch. `buffer` is enlarged if
  // necessary and is used exclusively by the batch during its lifetime.
  virtual std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                               AlignedBuffer& buffer) = 0;

  // Reads the elements of `tensor`'s sample (protos/base/sample.h) that are in
  // part number `part`, from the stored sample or from the bytes. Returns and
  // fails like ReadPart; returns an empty span if no sampled element is in the
  // part.
  virtual absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) = 0;

  // Begins to read samples that the caller would otherwise read with
  // ReadSample, as ReadParts does; `samples` need not outlive the call. Null if
  // the implementation does not read samples ahead.
  virtual std::unique_ptr<PartBatch> ReadSamples(
      std::span<const SamplePart> /*samples*/, AlignedBuffer& /*buffer*/) {
    return nullptr;
  }
};

// Location of a run, and its name there. An empty source is the local store;
// other sources are in the format of v1::Comparison.golden_source.
struct RunAddress {
  std::string source;
  std::string name;

  friend bool operator==(const RunAddress&, const RunAddress&) = default;
};

// Opens runs for reading. Thread-safe; must outlive the readers.
class RunReaders {
 public:
  virtual ~RunReaders() = default;

  // Opens a run of the local store.
  //
  // Errors: NOT_FOUND with RUN_NOT_FOUND if there is no run with that name;
  // FAILED_PRECONDITION with RUN_RESTORING for one that is being restored.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(
      std::string_view name) = 0;

  // As OpenRun, but also opens a run that is being restored, with the data
  // restored so far.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAsItIs(
      std::string_view name) {
    return OpenRun(name);
  }

  // Opens a run at any location. Implementations that support no source other
  // than the store need not override it. `wait` applies to this call and to the
  // reader.
  //
  // Errors: those of OpenRun; INVALID_ARGUMENT with FIELD_INVALID for an
  // unknown source; those of `wait`.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunAt(
      const RunAddress& run, const WaitCheck& /*wait*/) {
    if (run.source.empty()) return OpenRun(run.name);
    return WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                                 "source '{}' cannot be read here", run.source),
                      ErrorReason::kFieldInvalid);
  }

  // As OpenRunAt, for callers that also read `beside`, a run of the local
  // store: data that both runs have may be read from there. `beside` must
  // outlive the reader.
  virtual absl::StatusOr<std::unique_ptr<RunReader>> OpenRunBeside(
      const RunAddress& run, RunReader& /*beside*/, const WaitCheck& wait) {
    return OpenRunAt(run, wait);
  }
};

}  // namespace msitd::storage
