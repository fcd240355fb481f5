// SPDX-License-Identifier: Apache-2.0
#include "protos/base/request_rows.h"

#include <charconv>
#include <system_error>

namespace msitd {
namespace {

constexpr int64_t kRequestNumberMax = int64_t{1} << 40;

// Consumes the parts of a text from its beginning. After the first part that
// does not fit, nothing fits.
class RowTextReader {
 public:
  explicit RowTextReader(std::string_view text) : text_(text) {}

  bool Take(char c) {
    if (!fits_ || text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  void Require(char c) { fits_ = Take(c) && fits_; }

  int64_t Number() {
    int64_t out = 0;
    const char* const end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(text_.data(), end, out);
    fits_ = fits_ && error == std::errc() && out >= 0 &&
            out <= kRequestNumberMax && text_.front() != '-';
    text_ = std::string_view(rest, static_cast<size_t>(end - rest));
    return out;
  }

  RowRange Range() {
    RowRange out;
    out.first = Number();
    Require(':');
    out.end = Number();
    fits_ = fits_ && out.first <= out.end;
    return out;
  }

  bool is_at_end() const { return fits_ && text_.empty(); }

 private:
  std::string_view text_;
  bool fits_ = true;
};

bool IsWithin(const RowRange& range, const std::optional<int64_t>& count) {
  return !count.has_value() || range.end <= *count;
}

}  // namespace

std::optional<RequestRows> ParseRequestRows(std::string_view text) {
  RowTextReader reader(text);
  RequestRows out;
  out.rows = reader.Range();
  if (reader.Take(',')) out.columns = reader.Range();
  if (reader.Take('@')) out.position = reader.Number();
  if (reader.Take('/')) {
    out.row_count = reader.Number();
    if (reader.Take(',')) out.column_count = reader.Number();
  }
  if (!reader.is_at_end()) return std::nullopt;
  const bool has_columns_of_none = out.columns.has_value() &&
                                   out.row_count.has_value() &&
                                   !out.column_count.has_value();
  if (has_columns_of_none || !IsWithin(out.rows, out.row_count) ||
      (out.columns.has_value() && !IsWithin(*out.columns, out.column_count))) {
    return std::nullopt;
  }
  return out;
}

}  // namespace msitd
