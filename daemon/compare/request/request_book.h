// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/request_rows.h"
#include "protos/base/selector.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// Maximum number of request documents of a run that a comparison reads. They
// take about 150 bytes each.
inline constexpr size_t kRequestPiecesMax = size_t{1} << 20;

// The shape of the batch of a rank at a token.
struct BatchShape {
  int64_t row_count = 0;
  int64_t column_count = 0;  // 0 if the batch has one dimension.
  int64_t request_count = 0;

  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// The part of a request that a rank processes at one token: consecutive
// positions of its sequence.
struct RequestPiece {
  int64_t token = 0;
  // Positions of the sequence.
  RowRange positions;
  // Where their rows are in the batch. All have two dimensions if the batch
  // does; otherwise `columns` is 0 to 1.
  RowRange rows;
  RowRange columns;
  BatchShape batch;
  // Number of the request in the batch, by the first row.
  int64_t number = 0;

  friend bool operator==(const RequestPiece&, const RequestPiece&) = default;
};

// A request as one rank processed it.
struct RequestHistory {
  std::string id;
  std::vector<RequestPiece> pieces;  // By token, ascending.
};

// The requests of a run, by rank. Requests of a rank are in the order of their
// first appearance.
//
// Thread-compatible.
class RequestBook {
 public:
  // Reads the request documents of the selected ranks and tokens. If a caller
  // recorded only rows, a request continues after its last one. If a document
  // has the lengths of the batch but no position, the position is not known.
  //
  // Errors: RESOURCE_EXHAUSTED above kRequestPiecesMax; those of `stop` and of
  // the reader.
  static absl::StatusOr<RequestBook> Read(storage::RunReader& run,
                                          const Selector& selector,
                                          storage::StopCheck stop);

  const std::map<int32_t, std::vector<RequestHistory>>& ranks() const {
    return ranks_;
  }
  // Number of documents without rows, or whose rows are no longer stored,
  // contradict the batch or overlap those of another request.
  uint64_t unknown_count() const { return unknown_count_; }

 private:
  friend class RequestBookWriter;

  std::map<int32_t, std::vector<RequestHistory>> ranks_;
  uint64_t unknown_count_ = 0;
};

// Creates a RequestBook from documents. Thread-compatible.
class RequestBookWriter {
 public:
  // Adds a document. Documents are added by rank, then token.
  void Add(int32_t rank, int64_t token, std::string_view id,
           std::string_view text);
  RequestBook Finish() &&;

 private:
  struct Entry {
    std::string id;
    RequestRows rows;
    bool overlaps = false;  // Another request has some of the rows.
  };

  // Sorts the entries by rows, and marks those that overlap.
  void SortEntries();
  // Adds the pieces of the token whose documents were added last.
  void EndToken();
  RequestHistory& HistoryOf(const std::string& id);
  // Returns the position after the last piece of a request.
  int64_t NextOf(const std::string& id) const;
  // Counts a document without known rows. Where the request continues is not
  // known until a document has a position.
  void Lose(const std::string& id);

  int32_t rank_ = -1;
  int64_t token_ = -1;
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> histories_;  // By id.
  std::set<std::string> lost_;                            // Ids of the rank.
  RequestBook book_;
};

}  // namespace msitd::compare
