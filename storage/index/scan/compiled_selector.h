// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/index/db/index_key.h"
#include "storage/index/name/glob_names.h"
#include "storage/index/name/name_table.h"
#include "storage/index/name/work_meter.h"

namespace msitd::storage {

// A Selector in terms of the index: names are numbers, ranges are sorted and
// merged, so that a scan can seek past entries that cannot match. The names
// that match an op pattern are looked up in advance. If there are too many of
// them, or if this takes too long (GlobNames), the scan tests names as it finds
// them.
//
// Immutable after Compile, so thread-safe.
class CompiledSelector {
 public:
  // Errors: those of reading names.
  static absl::StatusOr<CompiledSelector> Compile(const Selector& selector,
                                                  NameTable& names,
                                                  GlobNames& globs);

  // True if nothing can match, because no tensor of the store has a requested
  // device or op.
  bool is_void() const { return is_void_; }

  // Moves `key` forward to the first position, possibly itself, that matches in
  // rank, device and token, and in the op unless its name must be tested.
  // Fields after a changed field become 0. Returns false if there is no such
  // position.
  bool Advance(IndexKey& key) const;

  bool MatchesIo(Io io) const {
    return IsValid(io) && (ios_ >> static_cast<int>(io) & 1) != 0;
  }
  bool MatchesKind(RecordKind kind) const {
    return (kinds_ >> static_cast<int>(kind) & 1) != 0;
  }
  // True if the op matches; for ops that Advance has not tested. Calls `stop`
  // as `meter` determines.
  absl::StatusOr<bool> MatchesOp(std::string_view op, WorkMeter& meter,
                                 StopCheck stop) const;
  bool judges_op_names() const { return !patterns_.empty(); }

 private:
  absl::Status CompileOps(const std::vector<std::string>& patterns,
                          NameTable& names, GlobNames& globs);
  bool AdvanceToken(IndexKey& key) const;

  bool is_void_ = false;
  // Sorted; empty for all.
  std::vector<uint64_t> ranks_;
  std::vector<uint64_t> devices_;
  std::vector<TokenRange> tokens_;
  std::vector<uint64_t> ops_;
  std::vector<std::string> patterns_;
  uint32_t ios_ = ~uint32_t{0};
  uint32_t kinds_ = 1U << static_cast<int>(RecordKind::kTensor);
};

}  // namespace msitd::storage
