// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "storage/face/run_reader.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_key.h"
#include "storage/index/name/name_verdicts.h"
#include "storage/index/name/work_meter.h"
#include "storage/index/scan/compiled_selector.h"
#include "storage/index/scan/request_filter.h"
#include "storage/index/scan/tensor_assembler.h"

namespace msitd::storage {

// The run to be scanned.
struct ScannedRun {
  RunId id{};
  std::string name;
};

// TensorScan over the primary index. See storage/face/run_reader.h.
class IndexScan final : public TensorScan {
 public:
  // INVALID_ARGUMENT with PAGE_TOKEN_INVALID if `position` is of another run
  // or of no scan.
  static absl::StatusOr<std::unique_ptr<TensorScan>> Begin(
      IndexDb& db, NameTable& names, GlobNames& globs, ExpiryTable& expiry,
      const ScannedRun& run, const Selector& selector,
      std::string_view position);
  ~IndexScan() override;

  absl::StatusOr<bool> Next(TensorInfo& out, StopCheck stop) override;
  std::string position() const override;
  uint64_t incomplete_count() const override { return incomplete_count_; }

 private:
  IndexScan(IndexDb& db, NameTable& names, ExpiryTable& expiry,
            const ScannedRun& run);

  // Moves the iterator to the next entry that the selector takes and sets `key`
  // to its key; false at the end. Sets last_ to the entries that it passes.
  absl::StatusOr<bool> FindMatch(IndexKey& key, StopCheck stop);
  // Moves the iterator, which is before `key`, to the first entry at or behind
  // `key`: by at most `steps_max` steps, then by a seek.
  void SkipTo(const IndexKey& key, int steps_max);
  absl::StatusOr<bool> MatchesOp(uint32_t op, StopCheck stop);
  // True if nothing can match.
  bool IsVoid() const;
  // Says whether the token of `key` works at one of the requests. If it does
  // not, moves `key` to the next token.
  absl::StatusOr<bool> HoldsRequest(IndexKey& key, StopCheck stop);
  // Several entries of one tensor in a row count once.
  void CountIncomplete(IndexKey key);
  absl::Status FillKey(const IndexKey& key, TensorKey& out);

  // A name of the tensor before; the next one often has it too.
  struct LastName {
    uint32_t id = 0;  // No name has this number.
    std::string name;
  };
  absl::Status FillName(uint32_t id, LastName& last, std::string& out);

  const std::string run_name_;
  const uint32_t run_;
  const std::string end_;  // Where the next run begins.
  CompiledSelector selector_;
  std::optional<RequestFilter> requests_;  // None: all.
  NameVerdicts verdicts_;                  // On the patterns of selector_.
  WorkMeter meter_;
  NameTable& name_table_;
  ScanNames names_;
  TensorAssembler assembler_;
  std::unique_ptr<rocksdb::ReadOptions> options_;
  std::unique_ptr<rocksdb::Slice> upper_bound_;
  std::unique_ptr<rocksdb::Iterator> it_;
  std::optional<IndexKey> last_;  // Of the last entry passed or taken.
  LastName device_;
  LastName op_;
  LastName index_;
  uint64_t incomplete_count_ = 0;
  std::optional<IndexKey> last_incomplete_;  // Its part is 0.
};

}  // namespace msitd::storage
