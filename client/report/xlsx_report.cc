// SPDX-License-Identifier: Apache-2.0
#include "client/report/xlsx_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xlsxwriter.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/text/text.h"
#include "protos/base/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr size_t kCopyBytes = size_t{256} << 10;

// What a workbook needs beside its sheets.
constexpr uint64_t kMarginBytes = uint64_t{1} << 20;

absl::Status FileError(std::string_view what, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInternal, "xlsx: {}: {}", what, why);
}

// True for a column that holds no numbers, whatever its cells look like.
bool IsTextColumn(std::string_view heading) {
  constexpr std::array kTexts = {
      "op",       "io",       "index",           "verdict",
      "reason",   "origin",   "predicate",       "layout_hint",
      "Result",   "token_id", "cmp_fail_reason", "Err_message",
      "Data_name"};
  constexpr std::array kEnds = {"_dtype",   "_shape", "_path",
                                "_op_type", " Name",  " Dtype",
                                " Shape",   " MD5",   ":text"};
  return std::find(kTexts.begin(), kTexts.end(), heading) != kTexts.end() ||
         std::any_of(kEnds.begin(), kEnds.end(), [heading](const char* end) {
           return heading.ends_with(end);
         });
}

std::optional<double> FiniteNumber(std::string_view text) {
  double out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || stop != end || !std::isfinite(out)) {
    return std::nullopt;
  }
  return out;
}

// XML has no such characters, which UTF-8 has: U+FFFE and U+FFFF.
void ReplaceNonCharacters(std::string& text) {
  for (const char* const absent : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (size_t at = text.find(absent); at != std::string::npos;
         at = text.find(absent, at)) {
      text.replace(at, 3, "\xEF\xBF\xBD");
    }
  }
}

// What looks like `_x0041_` is an escape there: its first `_` is escaped
// itself.
void EscapeEscapes(std::string& text) {
  constexpr std::string_view kUnderscore = "_x005F";
  constexpr size_t kEscapeBytes = 7;
  for (size_t at = text.find("_x"); at != std::string::npos;
       at = text.find("_x", at + 1)) {
    if (text.size() - at < kEscapeBytes || text[at + kEscapeBytes - 1] != '_' ||
        !std::all_of(text.begin() + at + 2,
                     text.begin() + at + kEscapeBytes - 1, [](char c) {
                       return std::isxdigit(static_cast<unsigned char>(c)) != 0;
                     })) {
      continue;
    }
    text.insert(at, kUnderscore);
    at += kUnderscore.size();
  }
}

// Cuts between characters.
void Cut(std::string& text) {
  if (text.size() <= kCellBytesMax) return;
  size_t end = kCellBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  text.resize(end);
}

// A workbook that is made in a file without a name, so that nothing is left of
// it if the process ends.
class Workbook {
 public:
  Workbook() = default;
  Workbook(const Workbook&) = delete;
  Workbook& operator=(const Workbook&) = delete;
  ~Workbook() {
    if (book_ != nullptr) lxw_workbook_free(book_);
  }

  absl::Status Open() {
    const char* const dir = std::getenv("TMPDIR");
    dir_ = dir != nullptr && *dir != '\0' ? dir : "/tmp";
    std::string path = dir_ + "/msitctl-XXXXXX";
    file_ = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
    if (!file_.valid()) return FileError(path, ErrorText(errno));
    ::unlink(path.c_str());
    lxw_workbook_options options = {};
    options.constant_memory = LXW_TRUE;
    options.tmpdir = dir_.data();
    options.use_zip64 = LXW_TRUE;
    book_ = workbook_new_opt(
        fmt::format("/proc/self/fd/{}", file_.get()).c_str(), &options);
    if (book_ == nullptr) return FileError("workbook", "no memory");
    bold_ = workbook_add_format(book_);
    if (bold_ == nullptr) return FileError("workbook", "no memory");
    format_set_bold(bold_);
    return absl::OkStatus();
  }

  absl::Status AddSheet(const std::vector<std::string>& heading) {
    MSITD_RETURN_IF_ERROR(CheckSheet());
    if (sheet_count_ == kSheetsMax) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "more rows than {} sheets hold; write csv or jsonl",
                        kSheetsMax);
    }
    ++sheet_count_;
    const std::string name =
        sheet_count_ == 1 ? "rows" : fmt::format("rows {}", sheet_count_);
    sheet_ = workbook_add_worksheet(book_, name.c_str());
    if (sheet_ == nullptr) return FileError(name, "no sheet can be added");
    sheets_.push_back(sheet_);
    worksheet_freeze_panes(sheet_, 1, 0);
    row_ = 0;
    for (size_t i = 0; i < heading.size(); ++i) {
      MSITD_RETURN_IF_ERROR(Check(worksheet_write_string(
          sheet_, 0, static_cast<lxw_col_t>(i), heading[i].c_str(), bold_)));
    }
    ++row_;
    return absl::OkStatus();
  }

  // Rows of the sheet so far.
  uint32_t row_count() const { return row_; }

  absl::Status AddNumber(size_t column, double value) {
    return Check(worksheet_write_number(
        sheet_, row_, static_cast<lxw_col_t>(column), value, nullptr));
  }
  absl::Status AddText(size_t column, std::string text) {
    EscapeEscapes(text);
    Cut(text);
    ReplaceNonCharacters(text);
    return Check(worksheet_write_string(
        sheet_, row_, static_cast<lxw_col_t>(column), text.c_str(), nullptr));
  }
  absl::Status AddTruth(size_t column, bool value) {
    return Check(worksheet_write_boolean(
        sheet_, row_, static_cast<lxw_col_t>(column), value ? 1 : 0, nullptr));
  }
  void EndRow() { ++row_; }

  // Puts the workbook together and gives all of it to `sink`.
  absl::Status Finish(const ReportSink& sink) {
    MSITD_RETURN_IF_ERROR(CheckSheet());
    MSITD_RETURN_IF_ERROR(CheckRoom());
    MSITD_RETURN_IF_ERROR(Check(workbook_close(std::exchange(book_, nullptr))));
    std::string buffer(kCopyBytes, '\0');
    for (off_t offset = 0;;) {
      const ssize_t bytes =
          ::pread(file_.get(), buffer.data(), buffer.size(), offset);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0) return FileError("read back", ErrorText(errno));
      if (bytes == 0) return absl::OkStatus();
      MSITD_RETURN_IF_ERROR(sink(std::string_view(buffer.data(), bytes)));
      offset += bytes;
    }
  }

 private:
  static std::string ErrorText(int error) {
    return std::error_code(error, std::generic_category()).message();
  }

  static absl::Status Check(lxw_error error) {
    if (error == LXW_NO_ERROR) return absl::OkStatus();
    return FileError("write", lxw_strerror(error));
  }

  // The library does not look at what becomes of the rows that it puts aside.
  absl::Status CheckSheet() const {
    if (sheet_ == nullptr || sheet_->optimize_tmpfile == nullptr) {
      return absl::OkStatus();
    }
    if (std::fflush(sheet_->optimize_tmpfile) == 0 &&
        std::ferror(sheet_->optimize_tmpfile) == 0) {
      return absl::OkStatus();
    }
    return FileError("rows do not fit into " + dir_, ErrorText(errno));
  }

  // Nor at what becomes of the sheets that it makes of them, one at a time, and
  // then packs to less than half their size.
  absl::Status CheckRoom() const {
    uint64_t all = 0;
    uint64_t largest = 0;
    for (const lxw_worksheet* const sheet : sheets_) {
      struct stat rows = {};
      if (sheet->optimize_tmpfile == nullptr ||
          ::fstat(::fileno(sheet->optimize_tmpfile), &rows) != 0) {
        continue;
      }
      const auto bytes = static_cast<uint64_t>(rows.st_size);
      all += bytes;
      largest = std::max(largest, bytes);
    }
    const uint64_t needed = largest + all / 2 + kMarginBytes;
    struct statvfs room = {};
    if (::statvfs(dir_.c_str(), &room) != 0) {
      return FileError(dir_, ErrorText(errno));
    }
    if (room.f_bavail * room.f_frsize >= needed) return absl::OkStatus();
    return FileError("workbook", fmt::format("{} has less than {} MiB left",
                                             dir_, (needed >> 20) + 1));
  }

  std::string dir_;
  UniqueFd file_;
  std::vector<lxw_worksheet*> sheets_;
  lxw_workbook* book_ = nullptr;
  lxw_format* bold_ = nullptr;
  lxw_worksheet* sheet_ = nullptr;
  int sheet_count_ = 0;
  lxw_row_t row_ = 0;
};

class XlsxReport final : public ReportWriter {
 public:
  XlsxReport(const TableMaker& make_table, ReportSink sink,
             uint32_t sheet_rows_max)
      : sink_(std::move(sink)),
        sheet_rows_max_(sheet_rows_max),
        table_(make_table(
            [this](std::string_view line) { return AddLine(line); })) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    MSITD_RETURN_IF_ERROR(workbook_.Open());
    custom_.insert(comparison.custom_metrics().begin(),
                   comparison.custom_metrics().end());
    return table_->Begin(comparison);
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    return table_->Add(row);
  }

  absl::StatusOr<std::string> Finish() override {
    MSITD_ASSIGN_OR_RETURN(std::string note, table_->Finish());
    MSITD_RETURN_IF_ERROR(workbook_.Finish(sink_));
    return note;
  }

 private:
  absl::Status AddLine(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    std::vector<std::string> cells = CsvFields(line);
    if (heading_.empty()) {
      heading_ = std::move(cells);
      for (const std::string& cell : heading_) {
        is_text_.push_back(!custom_.contains(cell) && IsTextColumn(cell));
      }
      return workbook_.AddSheet(heading_);
    }
    if (workbook_.row_count() == sheet_rows_max_) {
      MSITD_RETURN_IF_ERROR(workbook_.AddSheet(heading_));
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].empty()) continue;
      MSITD_RETURN_IF_ERROR(AddCell(i, std::move(cells[i])));
    }
    workbook_.EndRow();
    return absl::OkStatus();
  }

  absl::Status AddCell(size_t column, std::string text) {
    if (column >= is_text_.size() || is_text_[column]) {
      return workbook_.AddText(column, std::move(text));
    }
    if (const auto number = FiniteNumber(text)) {
      return workbook_.AddNumber(column, *number);
    }
    // As CSV has them, and as Python does.
    const bool is_true = text == "true" || text == "True";
    if (is_true || text == "false" || text == "False") {
      return workbook_.AddTruth(column, is_true);
    }
    return workbook_.AddText(column, std::move(text));
  }

  const ReportSink sink_;
  const uint32_t sheet_rows_max_;
  const std::unique_ptr<ReportWriter> table_;
  Workbook workbook_;
  std::vector<std::string> heading_;
  std::vector<bool> is_text_;
  // Own metrics, which have values whatever they are called.
  std::set<std::string> custom_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeXlsxReport(const TableMaker& make_table,
                                             ReportSink sink,
                                             uint32_t sheet_rows_max) {
  return std::make_unique<XlsxReport>(make_table, std::move(sink),
                                      sheet_rows_max);
}

}  // namespace msitd::ctl
