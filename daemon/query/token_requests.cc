// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/token_requests.h"

#include <utility>

#include "daemon/requests/request_documents.h"
#include "protos/base/request.h"
#include "protos/base/request_rows.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

// Returns a request with the text of its rows, without the lengths of the
// batch.
TokenRequest ToRequest(std::string id, const std::string& text) {
  const bool is_valid = ParseRequestRows(text).has_value();
  return {std::move(id), is_valid ? text.substr(0, text.find('/')) : ""};
}

}  // namespace

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

absl::StatusOr<const std::vector<TokenRequest>*> TokenRequests::All(
    int32_t rank, int64_t token, storage::StopCheck stop) {
  if (IsKnown(rank, token, /*is_all=*/true)) return &requests_;
  Selector selector;
  selector.ranks = {rank};
  selector.tokens = {{token, token}};
  MSITD_RETURN_IF_ERROR(requests::VisitRequestDocuments(
      run_, std::move(selector), stop,
      [this](const storage::TensorInfo& document) -> absl::StatusOr<bool> {
        MSITD_ASSIGN_OR_RETURN(
            const std::string rows,
            requests::ReadRequestText(run_, document, buffer_));
        requests_.push_back(ToRequest(requests::RequestIdOf(document), rows));
        return requests_.size() < kTokenRequestsMax;
      }));
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
    MSITD_ASSIGN_OR_RETURN(const std::string rows,
                           requests::ReadRequestText(run_, *document, buffer_));
    requests_.push_back(ToRequest(id, rows));
  }
  Keep(rank, token, /*is_all=*/false);
  return &requests_;
}

}  // namespace msitd::query
