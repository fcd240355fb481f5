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

// The run to scan.
struct ScannedRun {
  RunId id{};
  std::string name;
};

// TensorScan on the primary index. See storage/face/run_reader.h.
class IndexScan final : public TensorScan {
 public:
  // Returns INVALID_ARGUMENT with PAGE_TOKEN_INVALID if `position` belongs to
  // another run or is not a position of a scan.
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

  // Moves the iterator to the next entry that the selector matches and sets
  // `key` to its key; false at the end. Sets last_ to the entries that it
  // passes.
  absl::StatusOr<bool> FindMatch(IndexKey& key, StopCheck stop);
  // Moves the iterator, which must be before `key`, to the first entry at or
  // after `key`: first by at most `steps_max` steps, then by a seek.
  void SkipTo(const IndexKey& key, int steps_max);
  absl::StatusOr<bool> MatchesOp(uint32_t op, StopCheck stop);
  // True if nothing can match.
  bool IsVoid() const;
  // Returns whether the token of `key` processes one of the requests. If not,
  // moves `key` to the next token.
  absl::StatusOr<bool> HoldsRequest(IndexKey& key, StopCheck stop);
  // Several consecutive entries of one tensor count once.
  void CountIncomplete(IndexKey key);
  absl::Status FillKey(const IndexKey& key, TensorKey& out);

  // A name of the previous tensor, which the next one often has as well.
  struct LastName {
    uint32_t id = 0;  // 0 is not the number of any name.
    std::string name;
  };
  absl::Status FillName(uint32_t id, LastName& last, std::string& out);

  const std::string run_name_;
  const uint32_t run_;
  const std::string end_;  // Start of the next run.
  CompiledSelector selector_;
  std::optional<RequestFilter> requests_;  // Nothing if the scan is not limited
                                           // to requests.
  NameVerdicts verdicts_;                  // Results for the patterns of
                                           // selector_.
  WorkMeter meter_;
  NameTable& name_table_;
  ScanNames names_;
  TensorAssembler assembler_;
  std::unique_ptr<rocksdb::ReadOptions> options_;
  std::unique_ptr<rocksdb::Slice> upper_bound_;
  std::unique_ptr<rocksdb::Iterator> it_;
  std::optional<IndexKey> last_;  // Key of the last entry that was passed or
                                  // returned.
  LastName device_;
  LastName op_;
  LastName index_;
  uint64_t incomplete_count_ = 0;
  std::optional<IndexKey> last_incomplete_;  // Its part is always 0.
};

}  // namespace msitd::storage
