// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_documents.h"

#include <cstddef>
#include <utility>

#include "protos/base/cache_places.h"
#include "protos/base/request.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::requests {

namespace {

using Visit =
    absl::FunctionRef<absl::StatusOr<bool>(const storage::TensorInfo&)>;

absl::StatusOr<std::string> ReadText(storage::RunReader& run,
                                     const storage::TensorInfo& document,
                                     size_t bytes_max, AlignedBuffer& buffer) {
  if (!document.has_bytes || document.tensor_bytes > bytes_max ||
      document.parts.size() != 1) {
    return std::string();
  }
  const auto bytes = run.ReadPart(document.parts[0], buffer);
  if (absl::IsUnavailable(bytes.status())) return bytes.status();
  if (!bytes.ok()) return std::string();
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return IsValidUtf8(text) ? std::move(text) : std::string();
}

absl::Status VisitDocuments(storage::RunReader& run, std::string_view prefix,
                            Selector selector, storage::StopCheck stop,
                            Visit visit) {
  Selector documents;
  documents.ranks = std::move(selector.ranks);
  documents.tokens = std::move(selector.tokens);
  documents.devices = {std::string(kRequestDevice)};
  documents.op_patterns = {std::string(prefix) + "*"};
  documents.ios = {Io::kState};
  documents.kinds = {RecordKind::kDocument};
  MSITD_ASSIGN_OR_RETURN(const auto scan, run.Scan(documents, ""));
  storage::TensorInfo document;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const bool found, scan->Next(document, stop));
    if (!found) return absl::OkStatus();
    if (document.key.call != 0) continue;
    MSITD_ASSIGN_OR_RETURN(const bool goes_on, visit(document));
    if (!goes_on) return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<std::string> ReadRequestText(storage::RunReader& run,
                                            const storage::TensorInfo& document,
                                            AlignedBuffer& buffer) {
  return ReadText(run, document, kRequestRowsBytesMax, buffer);
}

std::string RequestIdOf(const storage::TensorInfo& document) {
  return document.key.op.substr(kRequestOpPrefix.size());
}

absl::StatusOr<std::string> ReadCacheText(storage::RunReader& run,
                                          const storage::TensorInfo& document,
                                          AlignedBuffer& buffer) {
  return ReadText(run, document, kCacheTextBytesMax, buffer);
}

std::string CacheRequestIdOf(const storage::TensorInfo& document) {
  return document.key.op.substr(kCacheOpPrefix.size());
}

absl::Status VisitRequestDocuments(storage::RunReader& run, Selector selector,
                                   storage::StopCheck stop, Visit visit) {
  return VisitDocuments(run, kRequestOpPrefix, std::move(selector), stop,
                        visit);
}

absl::Status VisitCacheDocuments(storage::RunReader& run, Selector selector,
                                 storage::StopCheck stop, Visit visit) {
  return VisitDocuments(run, kCacheOpPrefix, std::move(selector), stop, visit);
}

}  // namespace msitd::requests
