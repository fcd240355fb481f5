// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/ci/junit_report.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/ask/report/markup_text.h"
#include "client/ask/report/page/page_header.h"
#include "client/ask/text/headline.h"
#include "client/ask/text/maker_text.h"
#include "client/ask/text/partial_text.h"
#include "client/ask/text/text.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

// Text in an element or an attribute. XML has no control characters, not even
// escaped ones.
std::string XmlText(std::string_view text) {
  return MarkupText(Printable(text));
}

// The worst result of a test case.
enum class CaseResult { kPassed, kSkipped, kFailed, kError };

struct TestCase {
  std::string name;
  CaseResult result = CaseResult::kPassed;
  // The reason of the first row with this result.
  std::string message;
  // At most kJunitRowsMax rows, or the findings of a comparison.
  std::vector<std::string> lines;
  size_t row_count = 0;
  size_t result_count = 0;  // Rows with this result.

  void Add(CaseResult other, std::string_view reason, const std::string& line) {
    ++row_count;
    if (other < result) return;
    if (other > result) {
      result = other;
      message = reason;
      lines.clear();
      result_count = 0;
    }
    ++result_count;
    if (result != CaseResult::kPassed && lines.size() < kJunitRowsMax) {
      lines.push_back(line);
    }
  }
};

CaseResult ResultOf(const v1::ComparisonRow& row) {
  switch (row.verdict()) {
    case v1::PASS:
      return CaseResult::kPassed;
    case v1::SKIPPED:
      return CaseResult::kSkipped;
    default:
      return CaseResult::kFailed;
  }
}

std::string CaseText(const TestCase& test, std::string_view group) {
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\"",
                                XmlText(group), XmlText(test.name));
  const char* element = nullptr;
  switch (test.result) {
    case CaseResult::kPassed:
      return out + "/>\n";
    case CaseResult::kSkipped:
      element = "skipped";
      break;
    case CaseResult::kFailed:
      element = "failure";
      break;
    case CaseResult::kError:
      element = "error";
      break;
  }
  std::string message = test.message;
  if (test.row_count > 1) {
    message = fmt::format("{} of {} rows: {}", test.result_count,
                          test.row_count, message);
  }
  out += fmt::format(">\n      <{} message=\"{}\">", element, XmlText(message));
  for (const std::string& line : test.lines) out += XmlText(line) + "\n";
  if (test.result_count > test.lines.size()) {
    out += fmt::format("{} more\n", test.result_count - test.lines.size());
  }
  return out + fmt::format("</{}>\n    </testcase>\n", element);
}

class JunitReport final : public ReportWriter {
 public:
  JunitReport(Allowed allowed, ReportSink sink)
      : allowed_(allowed), sink_(std::move(sink)) {}

  absl::Status Begin(const v1::Comparison& comparison) override {
    suite_ = fmt::format(
        "{}: {} against {}", comparison.name(),
        RunPlaceText(comparison.target_run(), comparison.target_source()),
        RunPlaceText(comparison.golden_run(), comparison.golden_source()));
    if (comparison.has_end_time()) {
      std::string text = TimeText(comparison.end_time());
      // xs:dateTime as CI systems read it has no zone.
      if (text.ends_with('Z')) text.pop_back();
      time_ = fmt::format(" timestamp=\"{}\"", XmlText(text));
    }
    AddVerdict(comparison);
    return absl::OkStatus();
  }

  absl::Status Add(const v1::ComparisonRow& row) override {
    const auto found = ops_.find(row.op());
    size_t number = 0;
    if (found != ops_.end()) {
      number = found->second;
    } else if (ops_.size() < kJunitOpsMax) {
      number = cases_.size();
      ops_.emplace(row.op(), number);
      cases_.emplace_back().name = row.op();
    } else {
      others_.Add(ResultOf(row), row.reason(), RowText(row));
      return absl::OkStatus();
    }
    cases_[number].Add(ResultOf(row), row.reason(), RowText(row));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish() override {
    std::string note;
    if (others_.row_count > 0) {
      note = fmt::format(
          "the report lists {} ops; the rows of the others are one test case",
          kJunitOpsMax);
      others_.name = fmt::format("{} rows of further ops", others_.row_count);
      cases_.push_back(std::move(others_));
    }
    size_t counts[4] = {};
    for (const TestCase& test : cases_) {
      ++counts[static_cast<size_t>(test.result)];
    }
    const std::string totals =
        fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\"", cases_.size(),
                    counts[static_cast<size_t>(CaseResult::kFailed)],
                    counts[static_cast<size_t>(CaseResult::kError)]);
    MSITD_RETURN_IF_ERROR(sink_(
        fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<testsuites name=\"msitd\" {}>\n"
                    "  <testsuite name=\"{}\" {} skipped=\"{}\"{}>\n",
                    totals, XmlText(suite_), totals,
                    counts[static_cast<size_t>(CaseResult::kSkipped)], time_)));
    for (const TestCase& test : cases_) {
      MSITD_RETURN_IF_ERROR(sink_(CaseText(test, suite_)));
    }
    MSITD_RETURN_IF_ERROR(sink_("  </testsuite>\n</testsuites>\n"));
    return note;
  }

 private:
  void AddVerdict(const v1::Comparison& comparison) {
    TestCase verdict;
    verdict.name = "verdict";
    CaseResult result = CaseResult::kPassed;
    const bool is_done = comparison.state() == v1::Comparison::DONE;
    switch (ConclusionOf(comparison, allowed_)) {
      case Conclusion::kPass:
        break;
      case Conclusion::kPartial:
        result = CaseResult::kError;
        break;
      case Conclusion::kFail:
        result = is_done ? CaseResult::kFailed : CaseResult::kError;
        break;
    }
    std::string headline = Headline(comparison, allowed_);
    if (headline.empty()) {
      headline = comparison.error().empty() ? "the comparison is not finished"
                                            : comparison.error();
    }
    verdict.Add(result, headline, "");
    verdict.lines.clear();
    for (const PageFact& fact : FindingFacts(comparison)) {
      verdict.lines.push_back(fmt::format("{}: {}", fact.label, fact.text));
    }
    cases_.push_back(std::move(verdict));
  }

  const Allowed allowed_;
  const ReportSink sink_;
  std::string suite_;
  std::string time_;
  std::vector<TestCase> cases_;  // The verdict first.
  std::unordered_map<std::string, size_t> ops_;
  TestCase others_;
};

}  // namespace

std::unique_ptr<ReportWriter> MakeJunitReport(Allowed allowed,
                                              ReportSink sink) {
  return std::make_unique<JunitReport>(allowed, std::move(sink));
}

}  // namespace msitd::ask
