// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/ci/markdown_report.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/report/page/page_header.h"
#include "client/ask/text/headline.h"
#include "client/ask/text/maker_text.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/text.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// Maximum length of a text in a cell. GitHub shows at most 1 MiB in all.
constexpr size_t kCellColumnsMax = 400;

// Characters that Markdown gives a meaning to.
constexpr std::string_view kMarkup = "\\`*_{}[]()<>#+-.!|~$&:";

// Returns a text that is shown as it is.
std::string MarkdownText(std::string_view text) {
  std::string out;
  for (const char each : Printable(text)) {
    if (each == '@') {
      // No escape prevents a mention; code does.
      out += "`@`";
      continue;
    }
    if (kMarkup.find(each) != std::string_view::npos) out += '\\';
    out += each;
  }
  return out;
}

std::string CellText(std::string_view text) {
  return MarkdownText(ShortenEnd(Printable(text), kCellColumnsMax));
}

std::string RowLine(const v1::ComparisonRow& row, std::string_view verdict) {
  return fmt::format(
      "| {} | {} | {} | {} | {} | {} | {} |\n", row.row(), verdict,
      CellText(row.op()),
      CellText(
          fmt::format("{}/{}", IoName(static_cast<Io>(row.io())), row.index())),
      CellText(RanksText(row)), row.token(), CellText(row.reason()));
}

class MarkdownReport final : public ReportWriter {
 public:
  MarkdownReport(Allowed allowed, ReportSink sink)
      : allowed_(allowed), sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    std::string headline = Headline(comparison, allowed_);
    if (headline.empty()) headline = "The comparison is not finished.";
    std::string out = fmt::format(
        "## {}\n\n{}\n\n| | |\n|---|---|\n| comparison | {} |\n"
        "| golden | {} |\n| target | {} |\n",
        VerdictWord(comparison, allowed_), MarkdownText(headline),
        CellText(comparison.name()),
        CellText(
            RunPlaceText(comparison.golden_run(), comparison.golden_source())),
        CellText(
            RunPlaceText(comparison.target_run(), comparison.target_source())));
    for (const PageFact& fact : FindingFacts(comparison)) {
      out += fmt::format("| {} | {} |\n", fact.label, CellText(fact.text));
    }
    return sink_(out);
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    for (size_t i = 0; i < std::size(kListed); ++i) {
      if (kListed[i].verdict != row.verdict()) continue;
      Listed& listed = listed_[i];
      ++listed.count;
      if (listed.lines.size() < kMarkdownRowsMax) {
        listed.lines.push_back(RowLine(row, kListed[i].word));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish() override {
    size_t count = 0;
    size_t shown = 0;
    std::string out =
        "\n| row | verdict | op | tensor | rank | token | reason |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const Listed& listed : listed_) {
      count += listed.count;
      for (const std::string& line : listed.lines) {
        if (shown == kMarkdownRowsMax) break;
        out += line;
        ++shown;
      }
    }
    if (count == 0) return "";
    if (count > shown) {
      out +=
          fmt::format("\nFurther rows that do not pass: {}\n", count - shown);
    }
    MSITD_RETURN_IF_ERROR(sink_(out));
    return "";
  }

 private:
  struct Verdict {
    v1::Verdict verdict;
    std::string_view word;
  };
  // The verdicts that are listed, in their order.
  static constexpr Verdict kListed[] = {{v1::FAIL, "fail"},
                                        {v1::UNMATCHED, "unmatched"},
                                        {v1::SKIPPED, "skipped"}};

  struct Listed {
    size_t count = 0;
    std::vector<std::string> lines;  // At most kMarkdownRowsMax.
  };

  const Allowed allowed_;
  const ReportSink sink_;
  std::array<Listed, std::size(kListed)> listed_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeMarkdownReport(Allowed allowed,
                                                 ReportSink sink) {
  return std::make_unique<MarkdownReport>(allowed, std::move(sink));
}

}  // namespace msitd::ask
