// SPDX-License-Identifier: Apache-2.0
#include "storage/index/scan/request_filter.h"

#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <optional>

#include "protos/base/request.h"
#include "protos/status/status.h"

namespace msitd::storage {

RequestFilter::RequestFilter() = default;
RequestFilter::RequestFilter(RequestFilter&& other) noexcept = default;
RequestFilter::~RequestFilter() = default;

absl::StatusOr<RequestFilter> RequestFilter::Create(
    const std::vector<std::string>& requests, IndexDb& db, NameTable& names) {
  RequestFilter out;
  MSITD_ASSIGN_OR_RETURN(const auto device,
                         names.Find(std::string(kRequestDevice)));
  // Documents have no index.
  MSITD_ASSIGN_OR_RETURN(const auto index, names.Find(""));
  if (!device.has_value() || !index.has_value()) return out;
  out.device_ = *device;
  out.index_ = *index;
  for (const std::string& request : requests) {
    MSITD_ASSIGN_OR_RETURN(const auto op,
                           names.Find(std::string(kRequestOpPrefix) + request));
    if (op.has_value()) out.ops_.push_back(*op);
  }
  out.it_ = db.Iterate(Table::kTensor, rocksdb::ReadOptions());
  return out;
}

absl::StatusOr<bool> RequestFilter::Holds(const IndexKey& key) {
  asks_ = 0;
  if (is_known_ && rank_ == key.rank && token_ == key.token) return holds_;
  IndexKey place;
  place.run = key.run;
  place.rank = rank_ = key.rank;
  place.device = device_;
  place.token = token_ = key.token;
  place.index = index_;
  place.io = Io::kState;
  is_known_ = false;
  holds_ = false;
  for (const uint32_t op : ops_) {
    place.op = op;
    const EncodedKey wanted = EncodeIndexKey(place);
    it_->Seek(View(wanted));
    MSITD_RETURN_IF_ERROR(ToStatus(it_->status(), "read index"));
    ++asks_;
    holds_ = it_->Valid() && it_->key().ToStringView() == View(wanted);
    if (holds_) break;
  }
  is_known_ = true;
  return holds_;
}

}  // namespace msitd::storage
