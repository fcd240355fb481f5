// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/csv_table.h"

#include <cstddef>
#include <set>
#include <utility>

#include "client/ask/text/text.h"
#include "client/foreign/formats/byte_source.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

absl::Status Wrong(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "{}", what);
}

// Reads records one after another.
class Records {
 public:
  explicit Records(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  int64_t line() const { return line_; }
  bool was_blank() const { return was_blank_; }

  absl::StatusOr<std::vector<std::string>> Next() {
    std::vector<std::string> fields(1);
    bool is_open = false;
    bool had_quotes = false;
    const int64_t first_line = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      std::string& field = fields.back();
      if (is_open) {
        if (c != '"') {
          field += c;
        } else if (Peek() == '"') {
          field += '"';
          ++at_;
        } else {
          is_open = false;
        }
      } else if (c == '"' && field.empty()) {
        is_open = true;
        had_quotes = true;
      } else if (c == ',') {
        if (fields.size() == kCsvColumnsMax) return Wrong("too many columns");
        fields.emplace_back();
      } else if (c == '\n' || (c == '\r' && Peek() == '\n')) {
        if (c == '\r') {
          ++at_;
          ++line_;
        }
        break;
      } else {
        field += c;
      }
    }
    if (is_open) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "a quote in line {} is not closed", first_line);
    }
    was_blank_ = fields.size() == 1 && fields[0].empty() && !had_quotes;
    return fields;
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  const std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  bool was_blank_ = false;
};

absl::Status CheckHeader(const std::vector<std::string>& header) {
  std::set<std::string_view> seen;
  for (const std::string& name : header) {
    if (!seen.insert(name).second) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "column \"{}\" appears twice", ask::Printable(name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  CsvTable table;
  Records records(text);
  while (!records.done()) {
    const int64_t line = records.line();
    MSITD_ASSIGN_OR_RETURN(std::vector<std::string> fields, records.Next());
    if (records.was_blank()) continue;
    if (table.header.empty()) {
      MSITD_RETURN_IF_ERROR(CheckHeader(fields));
      table.header = std::move(fields);
      continue;
    }
    if (fields.size() > table.header.size()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "line {} has {} fields, the header has {}", line,
                        fields.size(), table.header.size());
    }
    fields.resize(table.header.size());
    table.rows.push_back(std::move(fields));
  }
  if (table.header.empty()) return Wrong("it has no header");
  return table;
}

absl::StatusOr<CsvTable> ReadCsv(const std::string& path) {
  const auto source = formats::FileSource::Open(path);
  if (!source.ok()) return Annotate(source.status(), path);
  const uint64_t bytes = (*source)->size();
  if (bytes > kCsvBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} has {} bytes; the maximum is {}", path, bytes,
                      kCsvBytesMax);
  }
  const auto text = (*source)->ReadText(0, bytes);
  if (!text.ok()) return Annotate(text.status(), path);
  auto table = ParseCsv(*text);
  if (!table.ok()) return Annotate(table.status(), path);
  return table;
}

}  // namespace msitd::msit_command
