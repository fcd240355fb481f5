// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/token_requests.h"

#include <utility>

#include "protos/base/request.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::query {

bool TokenRequests::IsKnown(int32_t rank, int64_t token, bool is_all) {
  if (rank == rank_ && token == token_ && is_all == is_all_) return true;
  rank_ = token_ = -1;
  requests_.clear();
  return false;
}

void TokenRequests::Keep(int32_t rank, int64_t token, bool is_all) {
  rank_ = rank;
  token_ = token;
  is_all_ = is_all;
}

absl::StatusOr<std::string> TokenRequests::RowsOf(
    const storage::TensorInfo& document) {
  if (!document.has_bytes || document.tensor_bytes > kRequestRowsBytesMax ||
      document.parts.size() != 1) {
    return std::string();
  }
  const auto bytes = run_.ReadPart(document.parts[0], buffer_);
  if (absl::IsUnavailable(bytes.status())) return bytes.status();
  if (!bytes.ok()) return std::string();
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return IsValidUtf8(text) ? std::move(text) : std::string();
}

absl::StatusOr<const std::vector<TokenRequest>*> TokenRequests::All(
    int32_t rank, int64_t token, storage::StopCheck stop) {
  if (IsKnown(rank, token, /*is_all=*/true)) return &requests_;
  Selector selector;
  selector.ranks = {rank};
  selector.devices = {std::string(kRequestDevice)};
  selector.tokens = {{token, token}};
  selector.op_patterns = {std::string(kRequestOpPrefix) + "*"};
  selector.ios = {Io::kState};
  selector.kinds = {RecordKind::kDocument};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run_.Scan(selector, ""));
  storage::TensorInfo document;
  while (requests_.size() < kTokenRequestsMax) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(document, stop));
    if (!found) break;
    if (document.key.call != 0) continue;
    MSITD_ASSIGN_OR_RETURN(std::string rows, RowsOf(document));
    requests_.push_back(
        {document.key.op.substr(kRequestOpPrefix.size()), std::move(rows)});
  }
  Keep(rank, token, /*is_all=*/true);
  return &requests_;
}

absl::StatusOr<const std::vector<TokenRequest>*> TokenRequests::Of(
    int32_t rank, int64_t token, const std::vector<std::string>& ids) {
  if (IsKnown(rank, token, /*is_all=*/false)) return &requests_;
  TensorKey key;
  key.run = run_.name();
  key.rank = rank;
  key.device = std::string(kRequestDevice);
  key.token = token;
  key.io = Io::kState;
  for (const std::string& id : ids) {
    key.op = std::string(kRequestOpPrefix) + id;
    const auto document = run_.GetTensor(key);
    if (absl::IsNotFound(document.status())) continue;
    MSITD_RETURN_IF_ERROR(document.status());
    MSITD_ASSIGN_OR_RETURN(std::string rows, RowsOf(*document));
    requests_.push_back({id, std::move(rows)});
  }
  Keep(rank, token, /*is_all=*/false);
  return &requests_;
}

}  // namespace msitd::query
