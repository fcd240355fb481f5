// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();

v1::Histogram HistogramOf(double low, double high,
                          const std::vector<int64_t>& counts) {
  v1::Histogram out;
  out.set_low(low);
  out.set_high(high);
  out.mutable_counts()->Add(counts.begin(), counts.end());
  return out;
}

class HistogramCommandTest : public MsitctlTest {};

TEST_F(HistogramCommandTest, TheTableDrawsBarsAndWhatIsOutside) {
  v1::Histogram histogram = HistogramOf(-1, 1, {80, 0, 41, 1});
  histogram.set_above_count(3);
  histogram.set_nan_count(12);
  daemon_.data().histograms["t"] = histogram;
  const ChildResult result = Run({"tensor", "histogram", "t"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::string full;
  for (int i = 0; i < 40; ++i) full += "\u2588";
  EXPECT_EQ(result.out,
            "from    to  count\n"
            "  -1  -0.5     80  " +
                full +
                "\n"
                "-0.5     0      0\n"
                "   0   0.5     41  " +
                full.substr(0, 20 * 3) +
                "\u258c\n"
                " 0.5     1      1  \u258c\n"
                "   1   inf      3\n"
                " nan   nan     12\n");
  const v1::ComputeHistogramRequest request = daemon_.histogram_requests()[0];
  EXPECT_EQ(request.bin_count(), 20);
  EXPECT_FALSE(request.has_low());
}

TEST_F(HistogramCommandTest, CsvHasEveryElementAndExactEdges) {
  v1::Histogram histogram = HistogramOf(-1, 0.3, {1, 2});
  histogram.set_below_count(4);
  daemon_.data().histograms["t"] = histogram;
  EXPECT_EQ(Run({"tensor", "histogram", "t", "-o", "csv"}).out,
            "low,high,count\n"
            "-inf,-1,4\n"
            "-1,-0.35,1\n"
            "-0.35,0.3,2\n"
            "0.3,inf,0\n"
            "nan,nan,0\n");
}

TEST_F(HistogramCommandTest, FlagsReachTheDaemon) {
  daemon_.data().histograms["t"] = HistogramOf(-1.5, 2, {1});
  const ChildResult result =
      Run({"tensor", "histogram", "t", "--bins", "7", "--low", "-1.5", "--high",
           "2", "-o", "json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"low\": -1.5"));
  EXPECT_THAT(result.out, HasSubstr("\"counts\": [\n  \"1\"\n ]"));
  const v1::ComputeHistogramRequest request = daemon_.histogram_requests()[0];
  EXPECT_EQ(request.bin_count(), 7);
  EXPECT_EQ(request.low(), -1.5);
  EXPECT_EQ(request.high(), 2);
}

TEST_F(HistogramCommandTest, ErrorsAreTheDaemons) {
  EXPECT_EQ(Run({"tensor", "histogram", "nope"}).exit_code, 69);
  EXPECT_EQ(Run({"tensor", "histogram", "t", "--bins", "x"}).exit_code, 2);
  daemon_.data().histograms["t"] = HistogramOf(0, 1, {1});
  EXPECT_NE(Run({"tensor", "histogram", "t", "-o", "name"}).exit_code, 0);
}

class RowHistogramsTest : public MsitctlTest {
 protected:
  RowHistogramsTest() {
    v1::Comparison& comparison = daemon_.data().comparison;
    comparison.set_name("c-000001");
    comparison.set_state(v1::Comparison::DONE);
  }

  // Adds a row for two tensors of two float32 values that have histograms.
  v1::ComparisonRow& AddRow(v1::Verdict verdict) {
    auto& rows = daemon_.data().rows;
    v1::ComparisonRow& row = rows.emplace_back();
    row.set_row(static_cast<int64_t>(rows.size()) - 1);
    row.set_verdict(verdict);
    const auto fill = [&](v1::ComparedTensor& side, const char* name) {
      side.set_name(name + std::to_string(row.row()));
      side.set_dtype(v1::D_TYPE_FLOAT32);
      side.add_shape(2);
      side.set_nan_count(0);
      side.set_min(-1);
      side.set_max(1);
      daemon_.data().histograms[side.name()] = HistogramOf(-1, 1, {2});
    };
    fill(*row.mutable_golden(), "g");
    fill(*row.mutable_target(), "t");
    return row;
  }

  // Returns the histograms in the page that a report with `flags` writes.
  std::string Report(std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {"compare", "report", "c-000001",
                                          "--format", "html"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ChildResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const size_t begin = result.out.find("\"histograms\":{");
    EXPECT_NE(begin, std::string::npos);
    return result.out.substr(begin, result.out.find("</script>") - begin);
  }

  std::vector<std::string> Asked() {
    std::vector<std::string> names;
    for (const auto& request : daemon_.histogram_requests()) {
      names.push_back(request.name());
    }
    return names;
  }
};

TEST_F(RowHistogramsTest, FailingRowsComeFirst) {
  AddRow(v1::PASS);
  AddRow(v1::FAIL);
  AddRow(v1::PASS);
  AddRow(v1::FAIL);
  const std::string page = Report({"--histograms", "3"});
  // The rows are read at the same time, in no order.
  EXPECT_THAT(Asked(),
              UnorderedElementsAre("g1", "t1", "g3", "t3", "g0", "t0"));
  EXPECT_THAT(page, StartsWith("\"histograms\":{\"limit\":3,\"rows\":{\"0\":"));
  EXPECT_THAT(page, HasSubstr("\"1\":{\"low\":-1.0,\"high\":1.0,\"bins\":1,"
                              "\"golden\":[[2],0,0,0],\"target\":[[2],0,0,0],"
                              "\"note\":\"\"}"));
  EXPECT_THAT(page, Not(HasSubstr("\"2\":")));
}

TEST_F(RowHistogramsTest, BothSidesHaveTheBinsOfAllFiniteElements) {
  v1::ComparisonRow& row = AddRow(v1::FAIL);
  row.mutable_golden()->set_min(-3);
  row.mutable_target()->set_max(kInf);
  daemon_.data().histograms["t0"] = HistogramOf(-2, 5, {2});
  Report();
  const auto requests = daemon_.histogram_requests();
  ASSERT_THAT(Asked(), ElementsAre("t0", "g0", "t0"));
  // The finite extremes of a side with infinities require a request.
  EXPECT_FALSE(requests[0].has_low());
  for (const auto& request : {requests[1], requests[2]}) {
    EXPECT_EQ(request.low(), -3);
    EXPECT_EQ(request.high(), 5);
    EXPECT_EQ(request.bin_count(), 64);
  }
}

TEST_F(RowHistogramsTest, EqualBytesAreReadOnce) {
  AddRow(v1::PASS).set_bitwise_equal(true);
  EXPECT_THAT(Report(), HasSubstr("\"target\":[[2],0,0,0]"));
  EXPECT_THAT(Asked(), ElementsAre("g0"));
}

TEST_F(RowHistogramsTest, TensorsThatAreGoneAreToldOf) {
  AddRow(v1::FAIL);
  AddRow(v1::FAIL).clear_golden();
  daemon_.data().histograms.erase("g0");
  const std::string page = Report();
  EXPECT_THAT(page, HasSubstr("\"golden\":null,\"target\":[[2],0,0,0],"
                              "\"note\":\"golden: NOT_FOUND "
                              "(TENSOR_NOT_FOUND): no such tensor\"}"));
  EXPECT_THAT(page, HasSubstr("\"golden\":null,\"target\":[[2],0,0,0],"
                              "\"note\":\"\"}"));
}

TEST_F(RowHistogramsTest, AssembledRowsAndLargeOnesHaveNone) {
  AddRow(v1::FAIL).mutable_target()->add_ranks(3);
  AddRow(v1::FAIL).mutable_golden()->set_shape(0, int64_t{1} << 62);
  const std::string page = Report();
  EXPECT_THAT(
      page, HasSubstr("\"note\":\"target: assembled from shards of 1 rank\""));
  EXPECT_THAT(page, HasSubstr("golden: 8192 PiB to read exceed the rest of the "
                              "limit of 4 GiB for one report"));
  EXPECT_THAT(Asked(), ElementsAre("t1"));
}

TEST_F(RowHistogramsTest, OtherErrorsEndTheReport) {
  for (int i = 0; i < 20; ++i) AddRow(v1::FAIL);
  daemon_.data().busy_histogram_count = 1000;
  const ChildResult result =
      Run({"compare", "report", "c-000001", "--format", "html"});
  EXPECT_EQ(result.exit_code, 72);
  // Those of four rows at the same time, and one more on its own.
  EXPECT_LE(Asked().size(), 5);
}

TEST_F(RowHistogramsTest, ABusyDaemonIsAskedForOneRowAtATime) {
  constexpr size_t kRows = 12;
  for (size_t i = 0; i < kRows; ++i) AddRow(v1::FAIL);
  daemon_.data().busy_histogram_count = 2;
  const std::string page = Report();
  for (size_t i = 0; i < kRows; ++i) {
    EXPECT_THAT(page, HasSubstr("\"" + std::to_string(i) + "\":{\"low\":-1.0"));
  }
  // No side is read twice.
  EXPECT_EQ(Asked().size(), 2 * kRows + 2);
}

TEST_F(RowHistogramsTest, NoneAreFetchedWhereNoneAreShown) {
  AddRow(v1::FAIL);
  EXPECT_THAT(Report({"--histograms", "0"}),
              StartsWith("\"histograms\":{\"limit\":0,\"rows\":{}}"));
  EXPECT_EQ(Run({"compare", "report", "c-000001"}).exit_code, 0);
  EXPECT_THAT(Asked(), IsEmpty());
  EXPECT_EQ(
      Run({"compare", "report", "c-000001", "--histograms", "-1"}).exit_code,
      2);
  EXPECT_EQ(
      Run({"compare", "report", "c-000001", "--histograms", "10001"}).exit_code,
      2);
}

}  // namespace
}  // namespace msitd::msitctl
