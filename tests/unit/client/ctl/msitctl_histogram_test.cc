// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "tests/unit/client/ctl/msitctl_fixture.h"

namespace msitd::ctl {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace msitd::ctl
