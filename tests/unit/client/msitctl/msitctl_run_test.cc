// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/msitctl/msitctl_fixture.h"

namespace msitd::msitctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunCommandsTest : public MsitctlTest {};

TEST_F(RunCommandsTest, ListIsATable) {
  AddRun("golden-fp32");
  AddRun("tp8 bf16");
  const ChildResult result = Run({"run", "list"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out,
            "name         state   world_size  tensors   size  dropped  "
            "conflicts  create_time  labels\n"
            "golden-fp32  active           2       12  3 MiB        0          "
            "0  -\n"
            "tp8 bf16     active           2       12  3 MiB        0          "
            "0  -\n");
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(RunCommandsTest, ListGoesThroughAllPages) {
  for (int i = 0; i < 2500; ++i) AddRun("run-" + std::to_string(i));
  const ChildResult result = Run({"run", "list", "-o", "name"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2500);
  EXPECT_THAT(daemon_.calls(), ElementsAre("ListRuns", "ListRuns", "ListRuns"));
}

TEST_F(RunCommandsTest, ALimitStopsTheList) {
  for (int i = 0; i < 2500; ++i) AddRun("run-" + std::to_string(i));
  EXPECT_EQ(Run({"run", "list", "-o", "name", "--limit", "2"}).out,
            "run-0\nrun-1\n");
  const ChildResult result =
      Run({"run", "list", "-o", "name", "--limit", "1001"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1001);
}

TEST_F(RunCommandsTest, GetSaysWhatIsNotThere) {
  const ChildResult result = Run({"run", "get", "x"});
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_EQ(
      result.err,
      "msitctl: NOT_FOUND (RUN_NOT_FOUND): no run \"x\"; there are no runs\n");
  EXPECT_THAT(result.out, IsEmpty());
}

TEST_F(RunCommandsTest, ANameMayLookLikeAFlagOrAVerb) {
  AddRun("-x");
  AddRun("list");
  EXPECT_EQ(Run({"run", "get", "-o", "name", "--", "-x"}).out, "-x\n");
  EXPECT_EQ(Run({"run", "get", "list", "-o", "name"}).out, "list\n");
}

TEST_F(RunCommandsTest, CreateSendsWhatWasGiven) {
  const ChildResult result = Run({"run", "create", "new", "--world-size", "8",
                                  "--label", "a=b=c", "--label", "d="});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("labels      a: b=c; d: \n"));
  const v1::Run run = daemon_.created_run();
  EXPECT_EQ(run.name(), "new");
  EXPECT_EQ(run.world_size(), 8);
  EXPECT_EQ(run.labels().at("a"), "b=c");
  EXPECT_EQ(run.labels().at("d"), "");
}

TEST_F(RunCommandsTest, SealPrintsTheRun) {
  AddRun("a");
  EXPECT_THAT(Run({"run", "seal", "a"}).out,
              HasSubstr("\nstate                        sealed\n"));
}

TEST_F(RunCommandsTest, PinSetsNothingElse) {
  AddRun("a");
  const ChildResult pinned = Run({"run", "pin", "a", "-o", "json"});
  EXPECT_EQ(pinned.exit_code, 0);
  EXPECT_THAT(pinned.out, HasSubstr("\"pinned\": true"));
  EXPECT_THAT(pinned.out, Not(HasSubstr("size_bytes_max")));
  EXPECT_THAT(Run({"run", "unpin", "a", "-o", "json"}).out,
              HasSubstr("\"pinned\": false"));
  EXPECT_THAT(daemon_.calls(),
              ElementsAre("SetRunRetention", "SetRunRetention"));
}

TEST_F(RunCommandsTest, RetainSendsTheLimitsThatWereGiven) {
  AddRun("a");
  const std::string out = Run({"run", "retain", "a", "--bytes", "2MB", "--age",
                               "90m", "-o", "json"})
                              .out;
  EXPECT_THAT(out, HasSubstr("\"size_bytes_max\": \"2097152\""));
  EXPECT_THAT(out, HasSubstr("\"age_max\": \"5400s\""));
  EXPECT_THAT(out, Not(HasSubstr("token_count")));
  const std::string off =
      Run({"run", "retain", "a", "--tokens", "0", "--age", "0", "-o", "json"})
          .out;
  EXPECT_THAT(off, HasSubstr("\"token_count\": \"0\""));
  EXPECT_THAT(off, HasSubstr("\"age_max\": \"0s\""));
  EXPECT_EQ(Run({"run", "retain", "a", "--age", "soon"}).exit_code, 2);
  EXPECT_EQ(Run({"run", "retain", "a", "--tokens", "-1"}).exit_code, 2);
}

TEST_F(RunCommandsTest, DeleteOffATerminalNeedsYes) {
  AddRun("a");
  const ChildResult refused = Run({"run", "delete", "a"}, {.input = "y\n"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--yes"));
  EXPECT_THAT(daemon_.calls(), Not(Contains("DeleteRun")));
  const ChildResult done = Run({"run", "delete", "a", "--yes"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_THAT(done.out, IsEmpty());
  EXPECT_EQ(done.err, "deleted run a\n");
  EXPECT_THAT(daemon_.calls(), Contains("DeleteRun"));
}

TEST_F(RunCommandsTest, DeleteOnATerminalAsks) {
  AddRun("a");
  ChildOptions terminal;
  terminal.stdin_is_terminal = true;
  terminal.stderr_is_terminal = true;
  terminal.input = "n\n";
  const ChildResult refused = Run({"run", "delete", "a"}, terminal);
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err,
              HasSubstr("Delete run a with 12 tensors, 3 MiB? [y/N]"));
  EXPECT_THAT(daemon_.calls(), Not(Contains("DeleteRun")));
  terminal.input = "y\n";
  EXPECT_EQ(Run({"run", "delete", "a"}, terminal).exit_code, 0);
  EXPECT_THAT(daemon_.calls(), Contains("DeleteRun"));
}

TEST_F(RunCommandsTest, AnEvilNameReachesNoTerminal) {
  AddRun("a\x1b]0;owned\x07");
  for (const char* format : {"table", "json", "csv", "name"}) {
    const ChildResult result =
        Run({"run", "list", "--no-color", "-o", format},
            {.stdout_is_terminal = true, .columns = 200});
    EXPECT_THAT(result.out, HasSubstr("owned"));
    EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(result.out, Not(HasSubstr("\x07")));
  }
}

}  // namespace
}  // namespace msitd::msitctl
