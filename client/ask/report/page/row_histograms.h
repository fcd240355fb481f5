// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::ask {

// Most rows of a report that get histograms: 10 MB of a page.
inline constexpr int64_t kHistogramRowsMax = 10'000;
// Rows that get histograms by default.
inline constexpr int64_t kHistogramRowsDefault = 200;
inline constexpr int32_t kRowHistogramBins = 64;
// The number of bytes that the daemon reads for the histograms of one report. A
// row that would exceed it gets none; smaller rows after it do.
inline constexpr int64_t kHistogramReadBytesMax = int64_t{4} << 30;

// The distributions of both sides of a row, over the same bins: those of all
// their finite elements.
struct RowHistogram {
  int64_t row = 0;
  std::optional<v1::Histogram> golden;
  std::optional<v1::Histogram> target;
  // Why a side has none, as one line for the reader.
  std::string note;
};

// Selects rows of a report, and requests their histograms from the daemon.
// Thread-compatible.
class RowHistograms {
 public:
  // Selects at most `row_max` rows.
  explicit RowHistograms(int64_t row_max)
      : row_max_(static_cast<size_t>(row_max)) {}

  // Must be called with all rows in order. Selects failing rows, the first of
  // them if there are too many, and then the first other rows.
  void Consider(const v1::ComparisonRow& row);

  // Requests the histograms of the selected rows, those of several rows at the
  // same time. `show` is called with a line about the progress, by one thread
  // at a time. A tensor that was deleted, is damaged or has no bytes is noted
  // in its row. Any other failure is an error, after which there are no
  // histograms.
  Outcome Fetch(Connection& connection,
                absl::FunctionRef<void(std::string_view)> show);

  size_t row_max() const { return row_max_; }
  // In the order of the rows.
  const std::vector<RowHistogram>& rows() const { return rows_; }

 private:
  struct Side {
    std::string name;  // Empty if the row has no such side.
    int64_t size_bytes = 0;
    bool knows_range = false;  // Whether `low` and `high` are set.
    double low = 0;            // Above `high` if nothing is finite.
    double high = 0;
    std::string problem;  // Why the side has no histogram.
  };
  struct Candidate {
    int64_t row = 0;
    Side golden;
    Side target;
    bool is_equal = false;
    std::string assembled;  // The side that was assembled, and its parts.
  };

  static Side SideOf(bool has, const v1::ComparedTensor& tensor);
  std::vector<Candidate> Chosen() const;
  // Decides which sides of a row are read within the limit.
  void Plan(Candidate& candidate);
  // Returns why bytes may not be read; empty if they may.
  std::string Reserve(int64_t read_bytes);
  // The functions below may be called for different rows at the same time.
  static Outcome FetchRow(Connection& connection, Candidate& candidate,
                          RowHistogram& out);
  static Outcome FindRange(Connection& connection, Side& side);
  // Sets `problem` of the side if `out` is not filled.
  static Outcome Call(Connection& connection,
                      const v1::ComputeHistogramRequest& request, Side& side,
                      v1::Histogram& out);

  const size_t row_max_;
  std::vector<Candidate> failing_;
  std::vector<Candidate> others_;
  std::vector<RowHistogram> rows_;
  int64_t read_bytes_ = 0;
};

}  // namespace msitd::ask
