// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Of a table: the sentence, an empty line, and the header of three rows.
constexpr int kHeaderLines = 2 + 5;

class CompareCommandsTest : public MsitctlTest {
 protected:
  CompareCommandsTest() {
    v1::Comparison& comparison = daemon_.data().comparison;
    comparison.set_name("c-000001");
    comparison.set_golden_run("golden");
    comparison.set_target_run("target");
    comparison.set_state(v1::Comparison::DONE);
    comparison.set_total_count(3);
    comparison.set_read_bytes(3 << 20);
    comparison.mutable_create_time()->set_seconds(1700000000);
    comparison.mutable_end_time()->set_seconds(1700000042);
  }

  void AddRow(const std::string& op, v1::Verdict verdict,
              const std::string& reason) {
    auto& rows = daemon_.data().rows;
    v1::Comparison& comparison = daemon_.data().comparison;
    v1::ComparisonRow& row = rows.emplace_back();
    row.set_row(static_cast<int64_t>(rows.size()) - 1);
    row.set_op(op);
    row.set_io(v1::IO_OUTPUT);
    row.set_index("0");
    row.set_verdict(verdict);
    row.set_reason(reason);
    row.mutable_golden()->set_name("runs/golden/" + op);
    row.mutable_golden()->set_dtype(v1::D_TYPE_FLOAT32);
    row.mutable_golden()->add_shape(2);
    if (verdict == v1::UNMATCHED) {
      comparison.set_unmatched_count(comparison.unmatched_count() + 1);
      return;
    }
    *row.mutable_target() = row.golden();
    row.mutable_target()->set_dtype(v1::D_TYPE_BFLOAT16);
    v1::MetricValue& metric = *row.add_metrics();
    metric.set_metric("cosine");
    metric.set_value(0.12345678);
    if (verdict == v1::PASS) {
      comparison.set_pass_count(comparison.pass_count() + 1);
    } else if (verdict == v1::FAIL) {
      comparison.set_fail_count(comparison.fail_count() + 1);
      if (!comparison.has_first_divergence()) {
        *comparison.mutable_first_divergence() = row;
      }
    } else {
      comparison.set_skipped_count(comparison.skipped_count() + 1);
    }
  }

  void AddThreeRows() {
    AddRow("embed", v1::PASS, "");
    AddRow("layers.0", v1::FAIL, "cosine 0.12 < 0.999");
    AddRow("head", v1::UNMATCHED, "target has no such tensor");
  }
};

TEST_F(CompareCommandsTest, ADivergenceIsExitCode1AndShown) {
  AddThreeRows();
  daemon_.data().polls_while_running = 3;
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, IsEmpty());
  // Only the time varies between runs.
  EXPECT_EQ(
      std::regex_replace(result.out, std::regex("MiB in [^\n]+"), "MiB in T"),
      "target differs from golden from layers.0 on (rank 0, token 0). 1 of 2 "
      "tensors fails, 1 without a counterpart.\n"
      "\n"
      "comparison        c-000001: golden golden, target target\n"
      "verdict           FAIL\n"
      "rows              3: 1 pass, 1 fail, 1 unmatched, 0 skipped\n"
      "first divergence  layers.0 output/0, rank 0, token 0, row 1: cosine "
      "0.12 < 0.999\n"
      "read              3 MiB in T\n"
      "\n"
      "row  token  rank  op        call  io/index  dtype             shape  "
      "verdict      cosine  max_abs  mean_abs  max_rel  mean_rel  rmse  nl2  "
      "kl  reason\n"
      "  1      0     0  layers.0     0  output/0  float32/bfloat16  [2]    "
      "fail       0.123457        -         -        -         -     -    -   "
      "-  cosine 0.12 < 0.999\n"
      "  2      0     0  head         0  output/0  float32/-         [2]/-  "
      "unmatched         -        -         -        -         -     -    -   "
      "-  target has no such tensor\n");
}

TEST_F(CompareCommandsTest, AllPassIs0) {
  AddRow("embed", v1::PASS, "");
  AddRow("tokens", v1::SKIPPED, "integers");
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out,
              HasSubstr("verdict           PASS (1 of 2 not compared)\n"));
  EXPECT_THAT(result.out, HasSubstr("first divergence  none\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("token")));
}

TEST_F(CompareCommandsTest, UnmatchedAloneFails) {
  AddRow("embed", v1::PASS, "");
  AddRow("head", v1::UNMATCHED, "");
  EXPECT_EQ(Run({"compare", "run", "golden", "target"}).exit_code, 1);
}

TEST_F(CompareCommandsTest, ComparingNothingProvesNothing) {
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("FAIL (nothing was compared)"));
}

TEST_F(CompareCommandsTest, RowsAndLimitsAreWhatWasAskedFor) {
  AddThreeRows();
  for (int i = 0; i < 40; ++i) AddRow("x", v1::FAIL, "");
  const ChildResult by_default = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(std::count(by_default.out.begin(), by_default.out.end(), '\n'),
            kHeaderLines + 1 + 1 + 20);
  EXPECT_THAT(
      by_default.err,
      HasSubstr("20 of 42 rows are shown; to print all: msitctl compare rows "
                "c-000001 --verdict fail,unmatched"));
  const ChildResult all = Run(
      {"compare", "run", "golden", "target", "--rows", "all", "--limit", "0"});
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'),
            kHeaderLines + 1 + 1 + 43);
  const ChildResult none =
      Run({"compare", "run", "golden", "target", "--rows", "none"});
  EXPECT_EQ(std::count(none.out.begin(), none.out.end(), '\n'), kHeaderLines);
  EXPECT_EQ(none.exit_code, 1);
}

TEST_F(CompareCommandsTest, JsonHasRowsAndComparison) {
  AddThreeRows();
  const ChildResult result =
      Run({"compare", "run", "golden", "target", "-o", "json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, StartsWith("{\"rows\": [\n{\"row\":\"1\""));
  EXPECT_THAT(result.out, HasSubstr("\"comparison\":{\"name\":\"c-000001\""));
  EXPECT_THAT(result.out, HasSubstr("\"fail_count\":\"1\""));
  EXPECT_THAT(result.out, HasSubstr("\"verdict\":\"FAIL\""));
}

TEST_F(CompareCommandsTest, CsvHasAColumnForEachMetricOfTheDaemon) {
  AddThreeRows();
  const ChildResult result = Run({"compare", "rows", "c-000001", "-o", "csv"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out.substr(0, result.out.find('\n')),
              HasSubstr(",metrics.kl,metrics.sqnr_db,metrics.max_ulp"));
  EXPECT_THAT(result.out, HasSubstr(",0.12345678,,,"));
}

TEST_F(CompareCommandsTest, CustomMetricsHaveColumnsOfTheirOwn) {
  AddThreeRows();
  daemon_.data().comparison.add_custom_metrics("mine");
  v1::CustomMetric& metric = *daemon_.data().rows[1].add_custom_metrics();
  metric.set_metric("mine");
  metric.set_value(0.5);
  metric.set_text("so so");
  const std::string csv = Run({"compare", "rows", "c-000001", "-o", "csv"}).out;
  EXPECT_THAT(csv, HasSubstr(",custom_metrics.mine,custom_metrics.mine:text,"));
  EXPECT_THAT(csv, HasSubstr(",0.5,so so,"));
  const std::string table = Run({"compare", "rows", "c-000001"}).out;
  EXPECT_THAT(table, HasSubstr("  mine  reason\n"));
  EXPECT_THAT(table, HasSubstr("  0.5 so so  cosine 0.12 < 0.999\n"));
}

TEST_F(CompareCommandsTest, RowsAreChosenByVerdict) {
  AddThreeRows();
  EXPECT_EQ(Run({"compare", "rows", "c-000001", "--verdict", "pass,unmatched",
                 "--columns", "row,verdict,metrics.cosine,dtype"})
                .out,
            "row  verdict    metrics.cosine  dtype\n"
            "  0  pass             0.123457  float32/bfloat16\n"
            "  2  unmatched               -  float32/-\n");
  EXPECT_EQ(
      Run({"compare", "rows", "c-000001", "--verdict", "fail", "-o", "name"})
          .out,
      "runs/golden/layers.0\n");
}

TEST_F(CompareCommandsTest, RulesThenFileThenTolerance) {
  AddRow("embed", v1::PASS, "");
  std::string pattern =
      (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::ofstream(folder / "policy") << "# from the file\nb: rmse <= 1\n";
  const ChildResult result =
      Run({"compare", "run", "--target", "target", "--golden", "golden",
           "--rule", "aten::a: kl <= 1", "--policy", folder / "policy", "--tol",
           "cosine >= 0.9", "--ops", "x*", "--ranks", "1"});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const v1::Comparison created = daemon_.created();
  EXPECT_EQ(created.golden_run(), "golden");
  EXPECT_EQ(created.target_run(), "target");
  ASSERT_EQ(created.policy().rules_size(), 3);
  EXPECT_EQ(created.policy().rules(0).op_pattern(), "aten::a");
  EXPECT_EQ(created.policy().rules(1).predicate(), "rmse <= 1");
  EXPECT_EQ(created.policy().rules(2).op_pattern(), "*");
  EXPECT_EQ(created.filter().op_patterns(0), "x*");
  EXPECT_EQ(created.filter().ranks(0), 1);
}

TEST_F(CompareCommandsTest, WithoutFlagsFilterAndPolicyAreAbsent) {
  AddRow("embed", v1::PASS, "");
  Run({"compare", "run", "golden", "target"});
  EXPECT_FALSE(daemon_.created().has_policy());
  EXPECT_FALSE(daemon_.created().has_filter());
}

TEST_F(CompareCommandsTest, APolicyThatIsNotThereIs3AndABadOneIs2) {
  EXPECT_EQ(
      Run({"compare", "run", "a", "b", "--policy", "/nonexistent"}).exit_code,
      3);
  const ChildResult bad = Run({"compare", "run", "a", "b", "--policy", "-"},
                              {.input = "fine: kl <= 1\nbad\n"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("line 2"));
}

TEST_F(CompareCommandsTest, AnInterruptCancelsTheComparison) {
  daemon_.data().polls_while_running = -1;
  const ChildResult result =
      Run({"compare", "run", "golden", "target"}, {.meanwhile = [&](pid_t pid) {
            daemon_.WaitForCall("GetComparison");
            kill(pid, SIGINT);
          }});
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.err, "msitctl: interrupted; c-000001 was cancelled\n");
  EXPECT_THAT(daemon_.calls(), Contains("CancelComparison"));
}

TEST_F(CompareCommandsTest, DetachDoesNotWait) {
  daemon_.data().polls_while_running = -1;
  const ChildResult result =
      Run({"compare", "run", "golden", "target", "--detach", "-o", "name"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "c-000001\n");
  EXPECT_THAT(daemon_.calls(), Not(Contains("GetComparison")));
}

TEST_F(CompareCommandsTest, DetachIsToldToTheDaemon) {
  for (const char* run : {"golden-fp32", "tp8 bf16"}) AddRun(run);
  Run({"compare", "run", "golden-fp32", "tp8 bf16", "--follow", "--detach"});
  EXPECT_TRUE(daemon_.created().detach());
  Run({"compare", "run", "golden", "target"});
  EXPECT_FALSE(daemon_.created().detach());
}

TEST_F(CompareCommandsTest, WhatAComparisonWaitsForIsToldOnce) {
  AddThreeRows();
  daemon_.data().polls_while_running = 12;
  daemon_.data().waiting_behind_count = 2;
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.err, "msitctl: c-000001: waiting for 2 other comparisons\n");
}

TEST_F(CompareCommandsTest, ATimeoutCancelsTheComparison) {
  daemon_.data().polls_while_running = -1;
  const ChildResult result =
      Run({"compare", "run", "golden", "target", "--timeout", "300ms"});
  EXPECT_EQ(result.exit_code, 68);
  EXPECT_THAT(result.err, HasSubstr("c-000001 was cancelled"));
  EXPECT_THAT(daemon_.calls(), Contains("CancelComparison"));
}

TEST_F(CompareCommandsTest, AFailedComparisonIs77WithItsError) {
  daemon_.data().comparison.set_state(v1::Comparison::FAILED);
  daemon_.data().comparison.set_error("segment 3 is gone");
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 77);
  EXPECT_THAT(result.err, HasSubstr("c-000001 failed: segment 3 is gone"));
}

TEST_F(CompareCommandsTest, AFailedComparisonHasTheCodeOfWhatEndedIt) {
  v1::Comparison& comparison = daemon_.data().comparison;
  comparison.set_state(v1::Comparison::FAILED);
  comparison.set_error("the daemon stopped");
  comparison.set_error_code(14);
  comparison.set_error_reason("NOT_SERVING");
  const ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_EQ(result.err,
            "msitctl: UNAVAILABLE (NOT_SERVING): c-000001 failed: the daemon "
            "stopped\n");
}

TEST_F(CompareCommandsTest, HalfARunIs4UnlessAFailureIsProven) {
  AddThreeRows();
  v1::Comparison& comparison = daemon_.data().comparison;
  comparison.set_fail_count(0);
  comparison.set_unmatched_count(2);
  comparison.set_for_want_of_ranks_count(2);
  comparison.set_partial(true);
  v1::RunRanks& ranks = *comparison.mutable_target_ranks();
  ranks.set_partial(true);
  ranks.add_ranks_held()->set_last(1);
  ranks.add_ranks_lacking()->set_first(2);
  ranks.mutable_ranks_lacking(0)->set_last(3);
  const std::vector<std::string> run = {"compare", "run", "golden", "target"};
  std::vector<std::string> allowed = run;
  allowed.emplace_back("--allow-partial");
  EXPECT_EQ(Run(run).exit_code, 4);
  EXPECT_THAT(Run(run).out, StartsWith("partial: 2 of 4 ranks; run "));
  EXPECT_EQ(Run(allowed).exit_code, 0);
  comparison.set_unmatched_count(3);
  EXPECT_EQ(Run(run).exit_code, 1);
  EXPECT_EQ(Run(allowed).exit_code, 1);
  comparison.set_unmatched_count(2);
  comparison.set_fail_count(1);
  EXPECT_EQ(Run(run).exit_code, 1);
  EXPECT_EQ(Run(allowed).exit_code, 1);
}

TEST_F(CompareCommandsTest, ARunThatIsNotThereIs69) {
  const ChildResult result = Run({"compare", "run", "nope", "target"});
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_EQ(result.err,
            "msitctl: NOT_FOUND (RUN_NOT_FOUND): no run \"nope\"\n");
}

TEST_F(CompareCommandsTest, ProgressIsOnATerminalOnlyAndGoneInTheEnd) {
  AddThreeRows();
  daemon_.data().polls_while_running = 12;
  const std::vector<std::string> arguments = {"compare", "run", "golden",
                                              "target"};
  const ChildResult shown = Run(arguments, {.stderr_is_terminal = true});
  EXPECT_THAT(shown.err, HasSubstr("c-000001: 3/3 rows, 1 fail"));
  EXPECT_TRUE(shown.err.ends_with("\r\x1b[K"));
  EXPECT_THAT(shown.out, Not(HasSubstr("\r")));
  EXPECT_THAT(Run(arguments).err, IsEmpty());
  const ChildResult forbidden =
      Run({"compare", "run", "golden", "target", "--no-progress"},
          {.stderr_is_terminal = true});
  EXPECT_THAT(forbidden.err, IsEmpty());
}

TEST_F(CompareCommandsTest, ListGetCancelDelete) {
  AddThreeRows();
  EXPECT_EQ(Run({"compare", "list", "-o", "name"}).out, "c-000001\n");
  const ChildResult shown = Run({"compare", "get", "c-000001"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.out, HasSubstr("verdict           FAIL\n"));
  EXPECT_THAT(shown.out, HasSubstr("first divergence  layers.0 output/0"));
  EXPECT_THAT(shown.out, HasSubstr("MiB in 42s\n"));
  EXPECT_THAT(shown.out, HasSubstr("\ntotal_count "));
  EXPECT_THAT(Run({"compare", "list"}).out,
              HasSubstr("c-000001  FAIL     done"));
  EXPECT_THAT(Run({"compare", "list", "-o", "csv"}).out,
              HasSubstr(",verdict\n"));
  EXPECT_EQ(Run({"compare", "get", "c-9"}).exit_code, 69);
  EXPECT_EQ(Run({"compare", "delete", "c-000001"}).exit_code, 2);
  EXPECT_EQ(Run({"compare", "delete", "c-000001", "--yes", "-o", "json"}).out,
            "{}\n");
  EXPECT_THAT(Run({"compare", "cancel", "c-000001"}).out,
              HasSubstr("cancelled"));
}

TEST_F(CompareCommandsTest, GetWaitsAndExitsAsRunDoes) {
  AddThreeRows();
  daemon_.data().polls_while_running = 3;
  const ChildResult running = Run({"compare", "get", "c-000001"});
  EXPECT_EQ(running.exit_code, 0);
  EXPECT_THAT(running.out, HasSubstr("verdict           - (running)\n"));
  const ChildResult over = Run({"compare", "get", "c-000001", "--wait"});
  EXPECT_EQ(over.exit_code, 1);
  EXPECT_THAT(over.out, HasSubstr("verdict           FAIL\n"));
}

TEST_F(CompareCommandsTest, AnInterruptedWaitLeavesTheComparison) {
  daemon_.data().polls_while_running = -1;
  const ChildResult result =
      Run({"compare", "get", "c-000001", "--wait", "--timeout", "300ms"});
  EXPECT_EQ(result.exit_code, 68);
  EXPECT_THAT(result.err,
              HasSubstr("c-000001 continues while the daemon runs"));
  EXPECT_THAT(daemon_.calls(), Not(Contains("CancelComparison")));
}

TEST_F(CompareCommandsTest, RowsAreChosenByNumberAndOp) {
  AddThreeRows();
  const auto rows = [this](std::vector<std::string> flags) {
    std::vector<std::string> all = {"compare", "rows", "c-000001", "--columns",
                                    "row"};
    all.insert(all.end(), flags.begin(), flags.end());
    return Run(all).out;
  };
  EXPECT_EQ(rows({"--row", "2,0"}), "row\n  0\n  2\n");
  EXPECT_EQ(rows({"--ops", "layers.0,head"}), "row\n  1\n  2\n");
  EXPECT_EQ(Run({"compare", "rows", "c-000001", "--row", "0-1000"}).exit_code,
            2);
  const ChildResult none = Run({"compare", "rows", "c-000001", "--ops", "x"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.err,
            "msitctl: note: 0 of 3 rows of c-000001 match --ops 'x'\n");
}

TEST_F(CompareCommandsTest, RowsAreSortedByAMetricTheWorstFirst) {
  const double nan = std::nan("");
  for (const double cosine : {0.5, 0.25, nan, 1.0}) {
    AddRow("x", v1::FAIL, "");
    daemon_.data().rows.back().mutable_metrics(0)->set_value(cosine);
    v1::MetricValue& nl2 = *daemon_.data().rows.back().add_metrics();
    nl2.set_metric("nl2");
    nl2.set_value(1 - cosine);
  }
  AddRow("x", v1::UNMATCHED, "");
  const auto sorted = [this](std::vector<std::string> flags) {
    std::vector<std::string> all = {"compare", "rows",     "c-000001",
                                    "-o",      "csv",      "--columns",
                                    "row",     "--sort-by"};
    all.insert(all.end(), flags.begin(), flags.end());
    return Run(all);
  };
  EXPECT_EQ(sorted({"cosine"}).out, "row\n2\n1\n0\n3\n4\n");
  EXPECT_EQ(sorted({"metrics.nl2"}).out, "row\n2\n1\n0\n3\n4\n");
  const ChildResult two = sorted({"cosine", "--limit", "2"});
  EXPECT_EQ(two.out, "row\n2\n1\n");
  EXPECT_EQ(two.err,
            "msitctl: note: 2 of 5 rows are shown, the worst by cosine\n");
  EXPECT_THAT(Run({"compare", "rows", "c-000001"}).out,
              Not(HasSubstr("sqnr_db")));
  EXPECT_THAT(Run({"compare", "rows", "c-000001", "--sort-by", "sqnr_db"}).out,
              HasSubstr("sqnr_db"));
  const ChildResult wrong = sorted({"cosin"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(
      wrong.err,
      HasSubstr("--sort-by: \"cosin\" is not a metric; did you mean cosine?"));
}

TEST_F(CompareCommandsTest, AToleranceThatIsNoneIsAnErrorOfItsFlag) {
  const auto error_of = [this](const std::string& refusal,
                               std::vector<std::string> flags) {
    daemon_.data().refusal = refusal;
    std::vector<std::string> all = {"compare", "run", "g", "t"};
    all.insert(all.end(), flags.begin(), flags.end());
    const ChildResult result = Run(all);
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  EXPECT_EQ(error_of("policy.rules[0]: predicate, column 1: unknown name "
                     "\"nl3\"; expected one of cosine, max_abs, nl2",
                     {"--tol", "nl3 <= 1"}),
            "msitctl: --tol 'nl3 <= 1': column 1: unknown name \"nl3\"; did "
            "you mean nl2?\n");
  EXPECT_THAT(error_of("policy.rules[1]: predicate, column 1: bad",
                       {"--rule", "a: nl2 <= 1", "--rule", "b: torch"}),
              HasSubstr("--rule 'b: torch': column 1: bad; write @torch for "
                        "the preset"));
  EXPECT_THAT(error_of("policy.rules[0]: predicate, column 5: bad",
                       {"--tol", "rtol 1e-3"}),
              HasSubstr("; write rtol=1e-3"));
  EXPECT_THAT(
      error_of("policy.rules[0]: predicate, column 5: bad", {"--tol", "1e-3"}),
      HasSubstr(
          "; write a bound as 'nl2 <= 1e-3', a tolerance as 'rtol=1e-3'"));
  EXPECT_THAT(error_of("policy.rules[0]: predicate, column 5: bad",
                       {"--tol", "nl2 =< 5"}),
              HasSubstr("; write 'nl2 <= 5'"));
  EXPECT_THAT(
      error_of("watches[0]: predicate, column 1: bad", {"--watch", "frob"}),
      HasSubstr("--watch 'frob': column 1: bad"));
}

TEST_F(CompareCommandsTest, APolicyFileIsNamedWithItsLine) {
  daemon_.data().refusal = "policy.rules[1]: predicate, column 1: bad";
  const ChildResult result =
      Run({"compare", "run", "g", "t", "--policy", "-"},
          {.input = "# rules\na: nl2 <= 1\n\nb: frob <= 1\n"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "msitctl: --policy -, line 4: column 1: bad\n");
}

TEST_F(CompareCommandsTest, ABoundTheWrongWayRoundIsTold) {
  AddRow("embed", v1::PASS, "");
  EXPECT_EQ(Run({"compare", "run", "g", "t", "--tol", "nl2 >= 0"}).err,
            "msitctl: note: --tol 'nl2 >= 0': lower values of nl2 are better, "
            "but this requires a high one\n");
  for (const char* tolerance :
       {"cosine > 0.9", "not nl2 > 5", "nl2 <= 1", "scaled_nl2 > 1"}) {
    EXPECT_THAT(Run({"compare", "run", "g", "t", "--tol", tolerance}).err,
                IsEmpty());
  }
}

TEST_F(CompareCommandsTest, ASelectionThatTakesNothingIsTold) {
  for (const char* run : {"golden", "target"}) AddRun(run);
  AddTensor("t").set_op("root.layers.0");
  const ChildResult result =
      Run({"compare", "run", "golden", "target", "--ops", "layers.*"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "msitctl: note: 0 of 12 tensors of run golden match --ops "
            "'layers.*'; an op of this run is root.layers.0\n"
            "msitctl: note: 0 of 12 tensors of run target match --ops "
            "'layers.*'; an op of this run is root.layers.0\n");
}

// A comparison by names would be another one.
TEST_F(CompareCommandsTest, ADaemonThatFailsBeforeTheComparisonIsReported) {
  for (const char* run : {"golden", "target"}) AddRun(run);
  AddTensor("t");
  daemon_.data().document_status = {grpc::StatusCode::UNAVAILABLE, "stopping"};
  ChildResult result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_EQ(result.err, "msitctl: UNAVAILABLE: stopping\n");
  daemon_.data().document_status = {grpc::StatusCode::DATA_LOSS, "damaged"};
  result = Run({"compare", "run", "golden", "target"});
  EXPECT_EQ(result.exit_code, 79);
  EXPECT_THAT(result.err, HasSubstr("use --match none"));
  EXPECT_THAT(daemon_.calls(), Not(Contains("CreateComparison")));
}

TEST_F(CompareCommandsTest, AFailureWinsOverAbsentRanks) {
  AddThreeRows();
  v1::Comparison& comparison = daemon_.data().comparison;
  comparison.set_partial(true);
  comparison.mutable_target_ranks()->set_partial(true);
  for (const char* verb : {"get", "rows"}) {
    EXPECT_EQ(Run({"compare", verb, "c-000001"}).exit_code, 0) << verb;
  }
  comparison.set_fail_count(0);
  comparison.set_for_want_of_ranks_count(1);
  for (const char* verb : {"get", "rows"}) {
    EXPECT_EQ(Run({"compare", verb, "c-000001"}).exit_code, 4) << verb;
  }
}

TEST_F(CompareCommandsTest, NamesAreCompleted) {
  for (const char* name : {"c-000001", "c-1", "latest", "-1"}) {
    for (const char* verb : {"get", "show", "cancel"}) {
      const ChildResult result = Run({"compare", verb, name, "-o", "name"});
      EXPECT_EQ(result.out, "c-000001\n") << verb << name << result.err;
    }
  }
  const ChildResult before = Run({"compare", "get", "-2"});
  EXPECT_EQ(before.exit_code, 2);
  EXPECT_THAT(before.err, HasSubstr("\"-2\": there are only 1 comparisons"));
  EXPECT_EQ(Run({"compare", "get", "c-2"}).exit_code, 69);
  EXPECT_EQ(Run({"compare", "get", "newest"}).exit_code, 69);
}

TEST_F(CompareCommandsTest, VerbsHaveTheShortNamesOfOtherTools) {
  EXPECT_EQ(Run({"compare", "ls", "-o", "name"}).out, "c-000001\n");
  EXPECT_EQ(Run({"compare", "rm", "c-1", "--yes"}).exit_code, 0);
  EXPECT_THAT(Run({"compare", "--help"}).out, HasSubstr("list, ls"));
}

TEST_F(CompareCommandsTest, AReportMayBeWrittenAtOnce) {
  AddThreeRows();
  const std::string path = ::testing::TempDir() + "at_once.csv";
  const ChildResult result =
      Run({"compare", "run", "golden", "target", "--out", path});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr("layers.0"));
  // Wrong flags are reported before anything is compared.
  const size_t call_count = daemon_.calls().size();
  const ChildResult other =
      Run({"compare", "run", "golden", "target", "--out", "report.pdf"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("must end in .csv"));
  EXPECT_EQ(Run({"compare", "run", "golden", "target", "--detach", "--out",
                 "report.html"})
                .exit_code,
            2);
  EXPECT_EQ(daemon_.calls().size(), call_count);
}

TEST_F(CompareCommandsTest, AReportIsOfAKnownKind) {
  AddThreeRows();
  const ChildResult result =
      Run({"compare", "report", "c-000001", "--out", "/nonexistent/r.pdf"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("--out /nonexistent/r.pdf: the file name must end in .csv,"));
  const ChildResult folder =
      Run({"compare", "report", "c-000001", "--out", "/nonexistent/r.csv"});
  EXPECT_EQ(folder.exit_code, 3);
  EXPECT_THAT(folder.err, HasSubstr("folder /nonexistent: No such file"));
}

TEST_F(CompareCommandsTest, OnANarrowTerminalMetricsMakeRoom) {
  AddThreeRows();
  const ChildResult result = Run({"compare", "rows", "c-000001", "--no-color"},
                                 {.stdout_is_terminal = true, .columns = 110});
  EXPECT_THAT(result.err, HasSubstr("not enough width for"));
  EXPECT_THAT(result.err, HasSubstr("kl"));
  EXPECT_THAT(result.out, HasSubstr("verdict"));
  EXPECT_THAT(result.out, HasSubstr("reason"));
  EXPECT_THAT(result.out, Not(HasSubstr("rmse")));
}

TEST_F(CompareCommandsTest, MetricsThatWereAskedForHaveColumns) {
  AddThreeRows();
  v1::MetricValue& ulp = *daemon_.data().rows[1].add_metrics();
  ulp.set_metric("max_ulp");
  ulp.set_value(3);
  EXPECT_THAT(Run({"compare", "rows", "c-000001"}).out,
              Not(HasSubstr("max_ulp")));
  daemon_.data().comparison.mutable_policy()->add_metric_sets(v1::Policy::ULP);
  EXPECT_THAT(Run({"compare", "rows", "c-000001"}).out, HasSubstr("max_ulp"));
  EXPECT_EQ(Run({"compare", "rows", "c-000001", "--verdict", "fail",
                 "--columns", "row,max_ulp,sqnr_db"})
                .out,
            "row  max_ulp  sqnr_db\n  1        3        -\n");
}

TEST_F(CompareCommandsTest, AMetricThatIsNotThereIsNoColumn) {
  AddThreeRows();
  const ChildResult result =
      Run({"compare", "rows", "c-000001", "--columns", "metrics.nl3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("no column \"metrics.nl3\"; did you mean "
                                    "metrics.nl2?"));
  EXPECT_EQ(Run({"compare", "run", "g", "t", "--columns", "frob"}).exit_code,
            2);
  EXPECT_THAT(daemon_.calls(), Not(Contains("CreateComparison")));
}

TEST_F(CompareCommandsTest, WithoutADaemonCsvHasNoHeading) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"tensor", "list", "--run", "r"},
           {"capture", "coverage", "r"},
           {"compare", "run", "g", "t", "--follow"}}) {
    std::vector<std::string> all = arguments;
    for (const char* more : {"-o", "csv", "--endpoint", "unix:/none/sock"}) {
      all.emplace_back(more);
    }
    const ChildResult result = Run(all);
    EXPECT_EQ(result.exit_code, 78);
    EXPECT_THAT(result.out, IsEmpty());
  }
}

}  // namespace
}  // namespace msitd::msitctl
