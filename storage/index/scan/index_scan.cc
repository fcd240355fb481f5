// SPDX-License-Identifier: Apache-2.0
#include "storage/index/scan/index_scan.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>

#include <optional>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// A seek takes about as long as this many steps. An op has about two entries.
constexpr int kStepsBeforeSeek = 8;
constexpr uint32_t kOpsSteppedOver = kStepsBeforeSeek / 2;
constexpr uint64_t kUnitsOfSeek = kStepsBeforeSeek;

// True if `to`, which is after `from`, is likely to be only some steps away.
bool IsNear(const IndexKey& from, const IndexKey& to) {
  return from.rank == to.rank && from.device == to.device &&
         from.token == to.token && to.op - from.op <= kOpsSteppedOver;
}

}  // namespace

IndexScan::IndexScan(IndexDb& db, NameTable& names, ExpiryTable& expiry,
                     const ScannedRun& run)
    : run_name_(run.name),
      run_(static_cast<uint32_t>(run.id)),
      end_(TensorRunPrefix(uint64_t{run_} + 1)),
      name_table_(names),
      names_(names),
      assembler_(expiry, names),
      options_(std::make_unique<rocksdb::ReadOptions>()),
      upper_bound_(std::make_unique<rocksdb::Slice>(end_)) {
  options_->iterate_upper_bound = upper_bound_.get();
  it_ = db.Iterate(Table::kTensor, *options_);
}

IndexScan::~IndexScan() = default;

absl::StatusOr<std::unique_ptr<TensorScan>> IndexScan::Begin(
    IndexDb& db, NameTable& names, GlobNames& globs, ExpiryTable& expiry,
    const ScannedRun& run, const Selector& selector,
    std::string_view position) {
  std::unique_ptr<IndexScan> scan(new IndexScan(db, names, expiry, run));
  // Compiled after the iterator was created, so that it includes all names of
  // the tensors that the iterator returns.
  MSITD_ASSIGN_OR_RETURN(scan->selector_,
                         CompiledSelector::Compile(selector, names, globs));
  if (!selector.requests.empty()) {
    MSITD_ASSIGN_OR_RETURN(RequestFilter requests,
                           RequestFilter::Create(selector.requests, db, names));
    scan->requests_.emplace(std::move(requests));
  }
  const std::string prefix = TensorRunPrefix(scan->run_);
  if (position.empty()) {
    scan->it_->Seek(prefix);
  } else {
    if (position.size() != kTensorPrefixBytes ||
        !position.starts_with(prefix)) {
      return WithReason(
          MakeStatus(absl::StatusCode::kInvalidArgument,
                     "the position is of no scan of run {}", scan->run_name_),
          ErrorReason::kPageTokenInvalid);
    }
    std::string key(position);
    key.resize(kIndexKeyBytes);
    scan->last_ = DecodeIndexKey(key);
    // Sorts after all parts of that tensor, whose numbers have fewer bits.
    scan->it_->Seek(std::string(position) + "\xff\xff\xff\xff");
  }
  return std::unique_ptr<TensorScan>(std::move(scan));
}

absl::StatusOr<bool> IndexScan::MatchesOp(uint32_t op, StopCheck stop) {
  if (!selector_.judges_op_names()) return true;
  if (const std::optional<bool> known = verdicts_.Find(op)) return *known;
  MSITD_ASSIGN_OR_RETURN(const std::string name, name_table_.NameOf(op));
  MSITD_ASSIGN_OR_RETURN(const bool matches,
                         selector_.MatchesOp(name, meter_, stop));
  verdicts_.Put(op, matches);
  return matches;
}

bool IndexScan::IsVoid() const {
  return selector_.is_void() || (requests_.has_value() && requests_->is_void());
}

absl::StatusOr<bool> IndexScan::HoldsRequest(IndexKey& key, StopCheck stop) {
  if (!requests_.has_value()) return true;
  MSITD_ASSIGN_OR_RETURN(const bool holds, requests_->Holds(key));
  MSITD_RETURN_IF_ERROR(meter_.Spend(requests_->asks() * kUnitsOfSeek, stop));
  if (holds) return true;
  IndexKey next;
  next.run = key.run;
  next.rank = key.rank;
  next.device = key.device;
  next.token = key.token + 1;
  key = next;
  return false;
}

void IndexScan::SkipTo(const IndexKey& key, int steps_max) {
  const EncodedKey target = EncodeIndexKey(key);
  for (int i = 0; i < steps_max; ++i) {
    it_->Next();
    if (!it_->Valid() || it_->key().ToStringView() >= View(target)) return;
  }
  it_->Seek(View(target));
}

absl::StatusOr<bool> IndexScan::FindMatch(IndexKey& key, StopCheck stop) {
  while (it_->Valid()) {
    MSITD_RETURN_IF_ERROR(meter_.Spend(1, stop));
    const std::optional<IndexKey> here =
        DecodeIndexKey(it_->key().ToStringView());
    if (!here.has_value()) return IndexCorrupt("tensor");
    key = *here;
    if (!selector_.Advance(key)) return false;
    if (key == *here) {
      MSITD_ASSIGN_OR_RETURN(const bool holds, HoldsRequest(key, stop));
      if (!holds && !selector_.Advance(key)) return false;
    }
    if (key != *here) {
      last_ = here;
      const bool is_near = IsNear(*here, key);
      SkipTo(key, is_near ? kStepsBeforeSeek : 0);
      if (!is_near) MSITD_RETURN_IF_ERROR(meter_.Spend(kUnitsOfSeek, stop));
      continue;
    }
    bool matches = selector_.MatchesIo(key.io);
    if (matches) {
      MSITD_ASSIGN_OR_RETURN(matches, MatchesOp(key.op, stop));
    }
    if (matches) return true;
    last_ = here;
    it_->Next();
  }
  MSITD_RETURN_IF_ERROR(ToStatus(it_->status(), "scan index"));
  return false;
}

absl::Status IndexScan::FillName(uint32_t id, LastName& last,
                                 std::string& out) {
  if (id != last.id) {
    MSITD_ASSIGN_OR_RETURN(const std::string* const name, names_.Get(id));
    last.name = *name;
    last.id = id;
  }
  out = last.name;
  return absl::OkStatus();
}

absl::Status IndexScan::FillKey(const IndexKey& key, TensorKey& out) {
  out.run = run_name_;
  out.rank = static_cast<int32_t>(key.rank);
  out.token = static_cast<int64_t>(key.token);
  out.call = static_cast<int32_t>(key.call);
  out.io = key.io;
  MSITD_RETURN_IF_ERROR(FillName(key.device, device_, out.device));
  MSITD_RETURN_IF_ERROR(FillName(key.op, op_, out.op));
  return FillName(key.index, index_, out.index);
}

void IndexScan::CountIncomplete(IndexKey key) {
  key.part = 0;
  if (last_incomplete_ == key) return;
  last_incomplete_ = key;
  ++incomplete_count_;
}

absl::StatusOr<bool> IndexScan::Next(TensorInfo& out, StopCheck stop) {
  if (IsVoid()) return false;
  IndexKey key;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, FindMatch(key, stop));
    if (!found) return false;
    MSITD_ASSIGN_OR_RETURN(const bool is_whole,
                           assembler_.Assemble(*it_, key, out));
    // An iterator that is not valid is at the end, or has failed.
    if (!it_->Valid()) {
      MSITD_RETURN_IF_ERROR(ToStatus(it_->status(), "scan index"));
    }
    last_ = key;
    if (!selector_.MatchesKind(out.kind)) continue;
    if (!is_whole) {
      CountIncomplete(key);
      continue;
    }
    MSITD_RETURN_IF_ERROR(FillKey(key, out.key));
    return true;
  }
}

std::string IndexScan::position() const {
  if (!last_.has_value()) return "";
  return std::string(TensorPrefix(EncodeIndexKey(*last_)));
}

}  // namespace msitd::storage
