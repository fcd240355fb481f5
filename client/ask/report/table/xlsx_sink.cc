// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xlsxwriter.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/report/table/sinks.h"
#include "client/ask/text/text.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// The width of the filter button in a heading, in characters.
constexpr size_t kFilterWidth = 3;

constexpr size_t kCopyBytes = size_t{256} << 10;

// The size of a workbook without its sheets.
constexpr uint64_t kMarginBytes = uint64_t{1} << 20;

absl::Status FileError(std::string_view what, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInternal, "xlsx: {}: {}", what, why);
}

// Replaces characters that UTF-8 allows and XML does not: U+FFFE and U+FFFF.
void ReplaceNonCharacters(std::string& text) {
  for (const char* const absent : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (size_t at = text.find(absent); at != std::string::npos;
         at = text.find(absent, at)) {
      text.replace(at, 3, "\xEF\xBF\xBD");
    }
  }
}

// Escapes the first `_` of text such as `_x0041_`, which Excel would treat as
// an escape.
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

// Truncates between characters.
void Cut(std::string& text) {
  if (text.size() <= kCellBytesMax) return;
  size_t end = kCellBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  text.resize(end);
}

// A workbook in an unnamed file, so that no file remains if the process ends.
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

  absl::Status AddSheet(const std::vector<std::string>& headings,
                        const std::string& name) {
    MSITD_RETURN_IF_ERROR(EndSheet());
    if (sheet_count_ == kSheetsMax) {
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "more rows than {} sheets can hold; use csv or jsonl",
                        kSheetsMax);
    }
    ++sheet_count_;
    sheet_ = workbook_add_worksheet(book_, name.c_str());
    if (sheet_ == nullptr) return FileError(name, "cannot add a sheet");
    sheets_.push_back(sheet_);
    worksheet_freeze_panes(sheet_, 1, 0);
    row_ = 0;
    widths_.clear();
    for (size_t i = 0; i < headings.size(); ++i) {
      MSITD_RETURN_IF_ERROR(Check(worksheet_write_string(
          sheet_, 0, static_cast<lxw_col_t>(i), headings[i].c_str(), bold_)));
      widths_.push_back(std::clamp(headings[i].size() + kFilterWidth,
                                   kColumnWidthMin, kColumnWidthMax));
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
    size_t& width = widths_[column];
    if (width < kColumnWidthMax && text.size() > width) {
      width = std::clamp(DisplayWidth(text), width, kColumnWidthMax);
    }
    return Check(worksheet_write_string(
        sheet_, row_, static_cast<lxw_col_t>(column), text.c_str(), nullptr));
  }
  absl::Status AddTruth(size_t column, bool value) {
    return Check(worksheet_write_boolean(
        sheet_, row_, static_cast<lxw_col_t>(column), value ? 1 : 0, nullptr));
  }
  void EndRow() { ++row_; }

  // Assembles the workbook and passes all of it to `sink`.
  absl::Status Finish(const ReportSink& sink) {
    MSITD_RETURN_IF_ERROR(EndSheet());
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

  // Sets the properties of the sheet that depend on its rows. Does nothing if
  // there is no sheet.
  absl::Status EndSheet() {
    if (sheet_ == nullptr) return absl::OkStatus();
    for (size_t i = 0; i < widths_.size(); ++i) {
      const auto column = static_cast<lxw_col_t>(i);
      MSITD_RETURN_IF_ERROR(Check(worksheet_set_column(
          sheet_, column, column, static_cast<double>(widths_[i]), nullptr)));
    }
    if (!widths_.empty()) {
      MSITD_RETURN_IF_ERROR(Check(worksheet_autofilter(
          sheet_, 0, 0, row_ - 1, static_cast<lxw_col_t>(widths_.size() - 1))));
    }
    return CheckSheet();
  }

  // The library does not report errors in writing the rows that it sets aside.
  absl::Status CheckSheet() const {
    if (sheet_ == nullptr || sheet_->optimize_tmpfile == nullptr) {
      return absl::OkStatus();
    }
    if (std::fflush(sheet_->optimize_tmpfile) == 0 &&
        std::ferror(sheet_->optimize_tmpfile) == 0) {
      return absl::OkStatus();
    }
    return FileError("no space for rows in " + dir_, ErrorText(errno));
  }

  // The library also does not report errors in writing the sheets, which it
  // creates from these rows one at a time, and then compresses to less than
  // half their size.
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
  std::vector<size_t>
      widths_;  // The widths of the sheet's columns, in characters.
};

class XlsxSink final : public TableSink {
 public:
  XlsxSink(ReportSink sink, std::vector<std::string> names,
           uint32_t sheet_rows_max)
      : sink_(std::move(sink)),
        names_(std::move(names)),
        sheet_rows_max_(sheet_rows_max) {}

  absl::Status Begin(const std::vector<std::string>& headings) override {
    if (begun_count_ == 0) MSITD_RETURN_IF_ERROR(workbook_.Open());
    if (begun_count_ == names_.size()) {
      return FileError("sheet", "it has no name");
    }
    headings_ = headings;
    part_ = 1;
    return workbook_.AddSheet(headings_, names_[begun_count_++]);
  }

  absl::Status Add(const Cells& cells) override {
    if (workbook_.row_count() == sheet_rows_max_) {
      MSITD_RETURN_IF_ERROR(workbook_.AddSheet(
          headings_, fmt::format("{} {}", names_[begun_count_ - 1], ++part_)));
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      MSITD_RETURN_IF_ERROR(AddCell(i, cells[i]));
    }
    workbook_.EndRow();
    return absl::OkStatus();
  }

  absl::Status Finish() override { return workbook_.Finish(sink_); }

 private:
  absl::Status AddCell(size_t column, const Cell& cell) {
    if (const auto* integer = std::get_if<int64_t>(&cell)) {
      return workbook_.AddNumber(column, static_cast<double>(*integer));
    }
    if (const auto* truth = std::get_if<Truth>(&cell)) {
      return workbook_.AddTruth(column, truth->value);
    }
    const auto* real = std::get_if<Real>(&cell);
    if (real != nullptr && std::isfinite(real->value)) {
      return workbook_.AddNumber(column, real->value);
    }
    std::string text = TextOf(cell);
    if (text.empty()) return absl::OkStatus();
    return workbook_.AddText(column, std::move(text));
  }

  const ReportSink sink_;
  const std::vector<std::string> names_;
  const uint32_t sheet_rows_max_;
  Workbook workbook_;
  // Sheets that were begun, and how many the rows of the last one take.
  size_t begun_count_ = 0;
  int part_ = 0;
  std::vector<std::string> headings_;
};

}  // namespace

std::unique_ptr<TableSink> MakeXlsxSink(ReportSink sink,
                                        uint32_t sheet_rows_max) {
  return MakeXlsxSheetsSink(std::move(sink), {"rows"}, sheet_rows_max);
}

std::unique_ptr<TableSink> MakeXlsxSheetsSink(ReportSink sink,
                                              std::vector<std::string> names,
                                              uint32_t sheet_rows_max) {
  return std::make_unique<XlsxSink>(std::move(sink), std::move(names),
                                    sheet_rows_max);
}

}  // namespace msitd::ask
