// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protos/base/dtype.h"
#include "protos/base/stream_coverage.h"
#include "protos/base/summary.h"
#include "protos/base/tensor_key.h"

// What goes in and out of a store.
namespace msitd::storage {

// Identifies a run for good: the number of a deleted run is not given again.
enum class RunId : uint64_t {};

struct RunSpec {
  std::string name;
  int32_t world_size = 0;  // 0: not known yet.
  std::map<std::string, std::string> labels;
  // The launch that it is of; empty while no producer has told one.
  std::string job = {};
};

struct RunCounters {
  uint64_t tensor_count = 0;  // Those with missing parts included.
  uint64_t payload_bytes = 0;
  uint64_t duplicate_count = 0;  // Records that came again, equal.
  uint64_t conflict_count = 0;   // Records that came again, with other bytes.
  // Records that producers gave up; see StreamCoverage.
  uint64_t dropped_count = 0;
  uint64_t truncated_count = 0;
  // Parts that came before the first part of their tensor.
  uint64_t headless_count = 0;
  int64_t token_end = 0;       // The highest token of a tensor, plus 1.
  uint64_t expired_bytes = 0;  // Of payload_bytes, those given up.

  uint64_t kept_bytes() const { return payload_bytes - expired_bytes; }
};

// Tensors of a stream that the run had already: the first ones stay.
struct StreamRepeats {
  uint64_t repeated_count = 0;
  uint64_t conflict_count = 0;  // Of these, those with other bytes.

  friend bool operator==(const StreamRepeats&, const StreamRepeats&) = default;
};

// What all streams of a rank were handed.
struct RankCoverage {
  int32_t rank = 0;
  uint64_t stream_count = 0;  // Those that told something.
  StreamCoverage total;
  StreamRepeats repeats = {};

  friend bool operator==(const RankCoverage&, const RankCoverage&) = default;
};

// When bytes of tensors are given up. Their summaries and hashes stay. 0 is no
// limit.
struct RetentionLimits {
  uint64_t bytes_max = 0;   // Payload.
  int64_t age_max_ns = 0;   // Since it was received.
  int64_t token_count = 0;  // The highest tokens of the run.

  friend bool operator==(const RetentionLimits&,
                         const RetentionLimits&) = default;
};

// What a run asks for.
struct RunRetention {
  bool pinned = false;     // Nothing is given up, whatever the limits.
  RetentionLimits limits;  // Each that is not 0 stands for that of the node.

  friend bool operator==(const RunRetention&, const RunRetention&) = default;
};

// What the node asks for.
struct RetentionPolicy {
  uint64_t disk_bytes_max = 0;  // Of segments and index; 0 is no limit.
  uint64_t disk_free_min = 0;   // Of the file system.
  RetentionLimits run;          // Of each run that asks for nothing else.
};

// What one step did.
struct RetentionStep {
  uint64_t expired_bytes = 0;
  bool is_done = true;  // Nothing is left to do now.
  // Bytes on the disk that are too many by the policy of the node. Above 0 once
  // done if only pinned runs, and tables of frames, are left.
  uint64_t excess_bytes = 0;
};

// What one step of sharing did.
struct ShareStep {
  uint64_t shared_bytes = 0;  // Given back to the file system.
  bool is_done = true;        // Nothing is left to do now.
};

struct RunInfo {
  RunId id{};
  RunSpec spec;
  bool sealed = false;
  int64_t create_time_ns = 0;  // Since the Unix epoch.
  int64_t seal_time_ns = 0;    // 0 while active.
  RunRetention retention;
  std::string capture_policy;  // Opaque; empty if there is none.
  RunCounters counters;
};

// Where a part came, as the store that gave it counts: means nothing to others,
// but that what came later compares greater.
struct PartPlace {
  uint64_t file = 0;
  uint64_t offset = 0;

  friend auto operator<=>(const PartPlace&, const PartPlace&) = default;
};

// One part of a tensor: kPartBytes of it, or what is left. Those who read it
// find its bytes by this, and check them.
struct PartInfo {
  PartPlace place;
  uint64_t bytes = 0;
  ContentHash hash;
  // False if it never had bytes: its capture asked for less.
  bool has_bytes = true;
  // Its sample is kept instead; see protos/base/sample.h.
  bool has_sample = false;
  uint64_t sample_hash = 0;
};

// Runs whose tensors have more placements are not compared by them.
inline constexpr size_t kRunPlacementsMax = size_t{1} << 16;

struct TensorInfo {
  TensorKey key;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  uint64_t tensor_bytes = 0;
  uint64_t sequence = 0;
  Summary summary;  // Of the whole tensor: its parts merged in order.
  ContentHash hash;
  // False if bytes of it were given up, or not kept in the first place.
  bool has_bytes = false;
  // It has no bytes, but ReadSample gives its sample.
  bool has_sample = false;
  std::vector<PartInfo> parts;
  std::string placement = {};  // Of a shard; see protos/base/placement.h.
};

struct TokenRange {
  int64_t first = 0;
  int64_t last = 0;  // Inclusive.
};

// Selects tensors: each field that is not empty must agree.
struct TensorSelector {
  std::vector<int32_t> ranks;
  std::vector<std::string> devices;
  std::vector<TokenRange> tokens;
  std::vector<std::string> op_patterns;  // GlobMatch; one of them must match.
  std::vector<Io> ios;
};

// One (rank, device, token) at which a run has tensors.
struct Coordinate {
  int32_t rank = 0;
  std::string device;
  int64_t token = 0;

  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

struct StoreStats {
  uint64_t segment_count = 0;
  uint64_t segment_bytes = 0;  // On disk, without what was given back.
  uint64_t index_bytes = 0;
  uint64_t run_count = 0;
  uint64_t committed_chunk_count = 0;  // Since Open, like all that follow.
  uint64_t committed_record_count = 0;
  uint64_t committed_bytes = 0;  // Payload.
  uint64_t duplicate_count = 0;
  uint64_t conflict_count = 0;
  uint64_t recovered_frame_count = 0;
  uint64_t torn_frame_count = 0;
  uint64_t disk_free_bytes = 0;
  // Places where frames that had been durable could not be read back at Open.
  uint64_t corrupt_frame_count = 0;
  // Payload given up, and RetentionStep::excess_bytes of the last step.
  uint64_t expired_bytes = 0;
  uint64_t excess_bytes = 0;
  // Why bytes that are over their age by the clock on the wall are kept: it was
  // set. Empty if there are none.
  std::string retention_pause;
  // Given back because parts share their bytes, and parts that could not: their
  // hashes are equal and their bytes are not.
  uint64_t shared_bytes = 0;
  uint64_t unequal_count = 0;
};

}  // namespace msitd::storage
