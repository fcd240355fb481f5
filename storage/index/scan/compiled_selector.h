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

// A Selector in terms of the index: names are numbers, ranges are sorted
// and merged, so that a scan can seek over what cannot match. The names that an
// op pattern stands for are looked up before; if there are too many of them, or
// that takes too long (GlobNames), whoever scans judges names as they come.
//
// Constant after Compile: thread-safe.
class CompiledSelector {
 public:
  // Errors: those of reading names.
  static absl::StatusOr<CompiledSelector> Compile(const Selector& selector,
                                                  NameTable& names,
                                                  GlobNames& globs);

  // True if nothing can match: a device or op is asked for that no tensor of
  // the store has.
  bool is_void() const { return is_void_; }

  // Moves `key` on to the first place, itself or later, at which rank, device
  // and token agree, and the op unless its name is to be judged. What lies
  // below a field that moves becomes 0. False if there is no such place.
  bool Advance(IndexKey& key) const;

  bool MatchesIo(Io io) const {
    return IsValid(io) && (ios_ >> static_cast<int>(io) & 1) != 0;
  }
  bool MatchesKind(RecordKind kind) const {
    return (kinds_ >> static_cast<int>(kind) & 1) != 0;
  }
  // True if the op agrees; for those that Advance has not judged already.
  // `stop` is asked as `meter` says.
  absl::StatusOr<bool> MatchesOp(std::string_view op, WorkMeter& meter,
                                 StopCheck stop) const;
  bool judges_op_names() const { return !patterns_.empty(); }

 private:
  absl::Status CompileOps(const std::vector<std::string>& patterns,
                          NameTable& names, GlobNames& globs);
  bool AdvanceToken(IndexKey& key) const;

  bool is_void_ = false;
  // Sorted; empty stands for all.
  std::vector<uint64_t> ranks_;
  std::vector<uint64_t> devices_;
  std::vector<TokenRange> tokens_;
  std::vector<uint64_t> ops_;
  std::vector<std::string> patterns_;
  uint32_t ios_ = ~uint32_t{0};
  uint32_t kinds_ = 1U << static_cast<int>(RecordKind::kTensor);
};

}  // namespace msitd::storage
