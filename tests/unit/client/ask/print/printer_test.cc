// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/printer.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A replacement for stdout that a test can read.
class Page {
 public:
  Page() : file_(open_memstream(&bytes_, &size_)), out_(file_) {}
  ~Page() {
    std::fclose(file_);
    std::free(bytes_);
  }
  Output& out() { return out_; }
  std::string Text() {
    EXPECT_TRUE(out_.Finish().ok());
    return std::string(bytes_, size_);
  }

 private:
  char* bytes_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
  Output out_;
};

v1::Run MakeRun(const std::string& name, int64_t size_bytes) {
  v1::Run run;
  run.set_name(name);
  run.set_state(v1::Run::SEALED);
  run.set_world_size(8);
  run.mutable_counters()->set_size_bytes(size_bytes);
  return run;
}

ListLayout RunLayout() {
  ListLayout layout;
  layout.response = v1::ListRunsResponse::descriptor();
  layout.field = "runs";
  layout.columns = "name,state,ranks=world_size,size=counters.size_bytes";
  layout.name = "name";
  return layout;
}

std::string PrintRuns(const std::vector<v1::Run>& runs, PrintOptions options,
                      const v1::ListRunsResponse& rest = {}) {
  Page page;
  auto printer = ListPrinter::Create(RunLayout(), options, page.out());
  if (!printer.ok()) return std::string(Message(printer.status()));
  for (const v1::Run& run : runs) (*printer)->Add(run);
  (*printer)->Finish(rest);
  return page.Text();
}

TEST(PrinterTest, TableHasItsColumns) {
  EXPECT_EQ(PrintRuns({MakeRun("golden", 4 << 20), MakeRun("b", 10)}, {}),
            "name    state   ranks   size\n"
            "golden  sealed      8  4 MiB\n"
            "b       sealed      8   10 B\n");
}

TEST(PrinterTest, CsvHasEveryFieldAndRawNumbers) {
  EXPECT_EQ(PrintRuns({MakeRun("a,b", 4 << 20)}, {.format = Format::kCsv}),
            "name,world_size,labels,state,create_time,seal_time,"
            "counters.tensor_count,counters.size_bytes,"
            "counters.duplicate_count,counters.conflict_count,"
            "counters.dropped_count,counters.truncated_count,"
            "counters.expired_size_bytes,"
            "counters.value_count,counters.dangling_count,"
            "counters.statistics_count,counters.document_count,"
            "counters.missing_size_bytes,counters.unread_place_count,"
            "retention.pinned,retention.size_bytes_max,retention.age_max,"
            "retention.token_count,ranks_held,ranks_lacking,partial,owner,"
            "archive.url,archive.state,archive.problem,archive.retry_time,"
            "archive.unreadable_tensor_count,id\n"
            "\"a,b\",8,,sealed,,,0,4194304,0,0,0,0,0,0,0,0,0,0,0,,,,,,,false,,,"
            ",,,,\n");
}

TEST(PrinterTest, ColumnsReplaceTheDefault) {
  EXPECT_EQ(PrintRuns({MakeRun("a", 1024)},
                      {.format = Format::kCsv, .columns = "size,name"}),
            "size,name\n1024,a\n");
  EXPECT_THAT(PrintRuns({}, {.columns = "nope"}),
              HasSubstr("no column \"nope\""));
}

TEST(PrinterTest, JsonOfAListIsTheResponse) {
  v1::ListRunsResponse rest;
  rest.set_next_page_token("more");
  const std::string json = PrintRuns({MakeRun("a", 1), MakeRun("b", 2)},
                                     {.format = Format::kJson}, rest);
  v1::ListRunsResponse parsed;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok())
      << json;
  ASSERT_EQ(parsed.runs_size(), 2);
  EXPECT_EQ(parsed.runs(1).counters().size_bytes(), 2);
  EXPECT_EQ(parsed.next_page_token(), "more");
  EXPECT_THAT(json, HasSubstr("\"world_size\":8"));
  EXPECT_THAT(json, HasSubstr("\"dropped_count\":\"0\""));
}

TEST(PrinterTest, JsonOfAnEmptyListHasTheList) {
  EXPECT_EQ(PrintRuns({}, {.format = Format::kJson}), "{\"runs\": []}\n");
}

TEST(PrinterTest, JsonKeepsOtherMessagesOfTheResponse) {
  ListLayout layout;
  layout.response = v1::StreamComparisonRowsResponse::descriptor();
  layout.field = "rows";
  v1::StreamComparisonRowsResponse rest;
  rest.mutable_comparison()->set_name("c-000001");
  Page page;
  auto printer =
      ListPrinter::Create(layout, {.format = Format::kJson}, page.out());
  (*printer)->Finish(rest);
  v1::StreamComparisonRowsResponse parsed;
  const std::string json = page.Text();
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &parsed).ok());
  EXPECT_EQ(parsed.comparison().name(), "c-000001");
  EXPECT_THAT(json, HasSubstr("\"fail_count\":\"0\""));
}

TEST(PrinterTest, NamesAreOneALine) {
  EXPECT_EQ(PrintRuns({MakeRun("a b", 1), MakeRun("c\nd", 2)},
                      {.format = Format::kName}),
            "a b\nc\\nd\n");
}

TEST(PrinterTest, KnownKeysBecomeColumnsOfCsv) {
  ListLayout layout;
  layout.response = v1::ListComparisonRowsResponse::descriptor();
  layout.field = "rows";
  layout.keys["metrics"] = {"cosine", "kl"};
  v1::ComparisonRow row;
  v1::MetricValue& metric = *row.add_metrics();
  metric.set_metric("kl");
  metric.set_value(0.1);
  Page page;
  auto printer =
      ListPrinter::Create(layout, {.format = Format::kCsv}, page.out());
  (*printer)->Add(row);
  const std::string csv = page.Text();
  EXPECT_THAT(csv, HasSubstr(",metrics.cosine,metrics.kl,"));
  EXPECT_THAT(csv, HasSubstr(",,0.1,"));
}

TEST(PrinterTest, OnATerminalNoFormatLetsControlCharactersThrough) {
  const v1::Run evil = MakeRun("a\x1b[31m\u009b\u202e\x7f", 1);
  for (const Format format :
       {Format::kTable, Format::kJson, Format::kCsv, Format::kName}) {
    const std::string text =
        PrintRuns({evil}, {.format = format, .to_terminal = true});
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\u009b")));
    EXPECT_THAT(text, Not(HasSubstr("\u202e")));
    EXPECT_THAT(text, Not(HasSubstr("\x7f")));
  }
}

TEST(PrinterTest, OneMessageIsALineForEachValueThatIsThere) {
  Page page;
  ASSERT_TRUE(PrintMessage(MakeRun("a", 2048), "name", {}, page.out()).ok());
  EXPECT_EQ(page.Text(),
            "field                        value\n"
            "name                         a\n"
            "world_size                   8\n"
            "state                        sealed\n"
            "counters.tensor_count        0\n"
            "counters.size_bytes          2 KiB\n"
            "counters.duplicate_count     0\n"
            "counters.conflict_count      0\n"
            "counters.dropped_count       0\n"
            "counters.truncated_count     0\n"
            "counters.expired_size_bytes  0 B\n"
            "counters.value_count         0\n"
            "counters.dangling_count      0\n"
            "counters.statistics_count    0\n"
            "counters.document_count      0\n"
            "counters.missing_size_bytes  0 B\n"
            "counters.unread_place_count  0\n"
            "partial                      false\n");
}

TEST(PrinterTest, ATableLeavesOutWhatIsPrintedOtherwise) {
  PrintOptions options;
  options.hidden_fields = {"counters", "state"};
  Page page;
  ASSERT_TRUE(
      PrintMessage(MakeRun("a", 2048), "name", options, page.out()).ok());
  EXPECT_EQ(page.Text(),
            "field       value\n"
            "name        a\n"
            "world_size  8\n"
            "partial     false\n");
}

TEST(PrinterTest, OneMessageWithoutANameHasNone) {
  Page page;
  const absl::Status status =
      PrintMessage(v1::NodeStatus(), "", {.format = Format::kName}, page.out());
  EXPECT_THAT(std::string(Message(status)), HasSubstr("has no names"));
}

TEST(PrinterTest, FormatsHaveNames) {
  EXPECT_EQ(ParseFormat("csv"), Format::kCsv);
  EXPECT_EQ(ParseFormat("yaml"), std::nullopt);
}

}  // namespace
}  // namespace msitd::ask
