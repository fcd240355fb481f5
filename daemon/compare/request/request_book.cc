// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_book.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/requests/request_documents.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// The number of columns of the batches of a token; nothing if its documents
// contradict each other.
std::optional<int64_t> AgreedCount(std::optional<int64_t> before,
                                   const std::optional<int64_t>& count) {
  if (!count.has_value()) return before;
  if (*before != 0 && *before != *count) return std::nullopt;
  return count;
}

int64_t FirstColumn(const RequestRows& rows) {
  return rows.columns.has_value() ? rows.columns->first : 0;
}

bool Overlap(const RowRange& a, const RowRange& b) {
  return std::max(a.first, b.first) < std::min(a.end, b.end);
}

bool Overlap(const RequestRows& a, const RequestRows& b) {
  return Overlap(a.rows, b.rows) &&
         (!a.columns.has_value() || !b.columns.has_value() ||
          Overlap(*a.columns, *b.columns));
}

}  // namespace

void RequestBookWriter::Add(int32_t rank, int64_t token, std::string_view id,
                            std::string_view text) {
  if (rank != rank_ || token != token_) EndToken();
  if (rank != rank_) {
    histories_.clear();
    lost_.clear();
  }
  rank_ = rank;
  token_ = token;
  std::optional<RequestRows> rows = ParseRequestRows(text);
  if (!rows.has_value()) {
    Lose(std::string(id));
    return;
  }
  entries_.push_back({std::string(id), *std::move(rows)});
}

int64_t RequestBookWriter::NextOf(const std::string& id) const {
  const auto found = histories_.find(id);
  if (found == histories_.end()) return 0;
  return book_.ranks_.at(rank_)[found->second].pieces.back().positions.end;
}

void RequestBookWriter::Lose(const std::string& id) {
  ++book_.unknown_count_;
  lost_.insert(id);
}

RequestHistory& RequestBookWriter::HistoryOf(const std::string& id) {
  std::vector<RequestHistory>& requests = book_.ranks_[rank_];
  const auto [found, is_new] = histories_.try_emplace(id, requests.size());
  if (is_new) requests.push_back({id, {}});
  return requests[found->second];
}

void RequestBookWriter::SortEntries() {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) {
                     return std::pair(a.rows.rows.first, FirstColumn(a.rows)) <
                            std::pair(b.rows.rows.first, FirstColumn(b.rows));
                   });
  // Several forwards of one token, as in gradient accumulation, have their own
  // rows. Which of them a tensor belongs to is not recorded.
  size_t longest = 0;
  for (size_t i = 1; i < entries_.size(); ++i) {
    for (const size_t before : {i - 1, longest}) {
      if (!Overlap(entries_[before].rows, entries_[i].rows)) continue;
      entries_[before].overlaps = entries_[i].overlaps = true;
    }
    if (entries_[i].rows.rows.end > entries_[longest].rows.rows.end) {
      longest = i;
    }
  }
}

void RequestBookWriter::EndToken() {
  // Documents without lengths are those of callers that record rows only: the
  // batch then ends with its last row.
  std::optional<int64_t> row_count = 0;
  std::optional<int64_t> column_count = 0;
  int64_t last_row = 0;
  for (const Entry& entry : entries_) {
    if (row_count.has_value()) {
      row_count = AgreedCount(row_count, entry.rows.row_count);
    }
    if (column_count.has_value()) {
      column_count = AgreedCount(column_count, entry.rows.column_count);
    }
    last_row = std::max(last_row, entry.rows.rows.end);
  }
  SortEntries();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    RequestPiece piece;
    piece.token = token_;
    piece.rows = entry.rows.rows;
    piece.number = static_cast<int64_t>(i);
    piece.batch = {std::max(row_count.value_or(0), last_row),
                   column_count.value_or(0),
                   static_cast<int64_t>(entries_.size())};
    const int64_t width = std::max<int64_t>(piece.batch.column_count, 1);
    piece.columns = entry.rows.columns.value_or(RowRange{0, width});
    // A rank records the lengths of a batch without a position only if it could
    // not determine the position, and the same applies to padding.
    const bool lacks_lengths =
        !entry.rows.row_count.has_value() &&
        row_count.value_or(0) + column_count.value_or(0) > 0;
    const bool lacks_position =
        entry.rows.row_count.has_value() && !entry.rows.position.has_value();
    piece.positions.first = entry.rows.position.value_or(NextOf(entry.id));
    int64_t size = 0;
    if (!row_count.has_value() || !column_count.has_value() ||
        piece.columns.end > width || entry.overlaps || lacks_lengths ||
        lacks_position ||
        (lost_.contains(entry.id) && !entry.rows.position.has_value()) ||
        __builtin_mul_overflow(piece.rows.size(), piece.columns.size(),
                               &size) ||
        __builtin_add_overflow(piece.positions.first, size,
                               &piece.positions.end)) {
      Lose(entry.id);
      continue;
    }
    lost_.erase(entry.id);
    if (size > 0) HistoryOf(entry.id).pieces.push_back(piece);
  }
  entries_.clear();
}

RequestBook RequestBookWriter::Finish() && {
  EndToken();
  return std::move(book_);
}

absl::StatusOr<RequestBook> RequestBook::Read(storage::RunReader& run,
                                              const Selector& selector,
                                              storage::StopCheck stop) {
  RequestBookWriter writer;
  AlignedBuffer buffer;
  size_t count = 0;
  const auto visit =
      [&](const storage::TensorInfo& document) -> absl::StatusOr<bool> {
    if (count++ == kRequestPiecesMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "run {} has more than {} request documents; narrow the "
                        "filter by rank or token",
                        run.name(), kRequestPiecesMax);
    }
    MSITD_ASSIGN_OR_RETURN(const std::string text,
                           requests::ReadRequestText(run, document, buffer));
    writer.Add(document.key.rank, document.key.token,
               requests::RequestIdOf(document), text);
    return true;
  };
  MSITD_RETURN_IF_ERROR(
      requests::VisitRequestDocuments(run, selector, stop, visit));
  return std::move(writer).Finish();
}

}  // namespace msitd::compare
