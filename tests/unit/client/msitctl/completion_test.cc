// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "client/msitctl/command_line.h"

namespace msitd::msitctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sources the script in bash and returns the completions for `words`. The last
// word is incomplete.
std::string Offered(const std::string& script, const std::string& words) {
  std::string path =
      (std::filesystem::temp_directory_path() / "msitctl-XXXXXX").string();
  const int fd = mkstemp(path.data());
  if (fd < 0) return "mkstemp failed";
  std::ofstream(path) << script << "COMP_WORDS=(" << words << ")\n"
                      << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                      << "_msitctl\necho \" ${COMPREPLY[*]} \"\n";
  std::string out;
  if (std::FILE* pipe = popen(("bash " + path + " 2>&1").c_str(), "r")) {
    char buffer[4096];
    while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) out += buffer;
    pclose(pipe);
  }
  close(fd);
  std::filesystem::remove(path);
  return out;
}

TEST(CompletionTest, BashOffersNounsVerbsAndFlags) {
  CommandLine line;
  const std::string script = BashCompletion(line.app());
  EXPECT_THAT(Offered(script, "msitctl \"\""), HasSubstr(" tensor "));
  EXPECT_EQ(Offered(script, "msitctl run s"), " seal \n");
  EXPECT_EQ(Offered(script, "msitctl --endpoint x:1 tensor fi"), " find \n");
  EXPECT_EQ(Offered(script, "msitctl tensor find --wh"), " --where \n");
  EXPECT_EQ(Offered(script, "msitctl tensor find --tim"), " --timeout \n");
  EXPECT_EQ(Offered(script, "msitctl run list -o t"), " table \n");
}

TEST(CompletionTest, BashOffersWhatAFlagTakes) {
  CommandLine line;
  const std::string script = BashCompletion(line.app());
  EXPECT_EQ(Offered(script, "msitctl compare run g t --preset po"),
            " polygraphy \n");
  EXPECT_EQ(Offered(script, "msitctl compare run g t --rows \"\""),
            " fail all none \n");
  EXPECT_EQ(Offered(script, "msitctl tensor list --io grad_i"),
            " grad_input \n");
  EXPECT_EQ(Offered(script, "msitctl compare rows c --verdict fail,unm"),
            " fail,unmatched \n");
  EXPECT_EQ(Offered(script, "msitctl compare report c --format h"), " html \n");
  EXPECT_EQ(Offered(script, "msitctl tensor read n --format n"), " npy \n");
}

TEST(CompletionTest, BashOffersRunsAndComparisons) {
  CommandLine line;
  // A shell function replaces the program and its daemon.
  const std::string script =
      BashCompletion(line.app()) +
      "timeout() { case \"$*\" in *\" run list\"*) echo golden; echo tp2 ;; "
      "*\" compare list\"*) echo c-000001 ;; esac; }\n";
  EXPECT_EQ(Offered(script, "msitctl run get \"\""), " golden tp2 \n");
  EXPECT_EQ(Offered(script, "msitctl compare run golden t"), " tp2 \n");
  EXPECT_EQ(Offered(script, "msitctl tensor list --run g"), " golden \n");
  EXPECT_EQ(Offered(script, "msitctl compare rows c"), " c-000001 \n");
}

TEST(CompletionTest, BashOffersColumnsAndMetrics) {
  CommandLine line;
  const std::string script =
      BashCompletion(line.app()) +
      "timeout() { case \"$*\" in *\" node capabilities -o name\"*) "
      "echo cosine; echo nl2 ;; esac; }\n";
  EXPECT_EQ(Offered(script, "msitctl run list --columns name,wor"),
            " name,world_size \n");
  EXPECT_EQ(Offered(script, "msitctl run list --columns counters.dropped_c"),
            " counters.dropped_count \n");
  EXPECT_EQ(Offered(script, "msitctl tensor list --columns summary.l1"),
            " summary.l1_norm \n");
  EXPECT_EQ(Offered(script, "msitctl compare list --columns verd"),
            " verdict \n");
  EXPECT_EQ(Offered(script, "msitctl compare list --columns first_divergence."),
            "  \n");
  EXPECT_EQ(Offered(script, "msitctl compare rows c --columns op,reas"),
            " op,reason \n");
  for (const char* verb : {"rows c --columns op,n", "run g t --columns op,n"}) {
    EXPECT_EQ(Offered(script, std::string("msitctl compare ") + verb),
              " op,not_compared op,nl2 \n");
  }
  EXPECT_EQ(Offered(script, "msitctl compare rows c --sort-by c"),
            " cosine \n");
  EXPECT_THAT(script, Not(HasSubstr("METRIC")));
}

TEST(CompletionTest, EveryShellAsksForNames) {
  CommandLine line;
  for (const std::string& script :
       {BashCompletion(line.app()), ZshCompletion(line.app()),
        FishCompletion(line.app())}) {
    EXPECT_THAT(script, HasSubstr("run list -o name"));
    EXPECT_THAT(script, HasSubstr("compare list -o name"));
    EXPECT_THAT(script, HasSubstr("node capabilities -o name"));
  }
}

TEST(CompletionTest, BashOffersTheAttachmentsOfARun) {
  CommandLine line;
  const std::string script =
      BashCompletion(line.app()) +
      "timeout() { case \"$*\" in *\" run list\"*) echo golden; echo tp2 ;; "
      "*\" run attachments tp2 \"*) echo tree; echo graph ;; esac; }\n";
  EXPECT_EQ(Offered(script, "msitctl run detach \"\""), " golden tp2 \n");
  EXPECT_EQ(Offered(script, "msitctl run detach tp2 g"), " graph \n");
  EXPECT_EQ(Offered(script, "msitctl run attachment golden \"\""), "  \n");
  EXPECT_EQ(Offered(script, "msitctl run attach t"), " tp2 \n");
  for (const std::string& other :
       {ZshCompletion(line.app()), FishCompletion(line.app())}) {
    EXPECT_THAT(other, HasSubstr("run attachments "));
  }
}

TEST(CompletionTest, ZshAndFishHaveEveryVerb) {
  CommandLine line;
  const std::string zsh = ZshCompletion(line.app());
  const std::string fish = FishCompletion(line.app());
  for (const char* path : {"/run/list", "/tensor/read", "/compare/cancel",
                           "/node/status", "/help"}) {
    EXPECT_THAT(zsh, HasSubstr(path));
    EXPECT_THAT(fish, HasSubstr(path));
  }
}

TEST(CompletionTest, DescriptionsCannotEndTheirQuotes) {
  CommandLine line;
  EXPECT_THAT(FishCompletion(line.app()), Not(HasSubstr("such as 'layers")));
  EXPECT_THAT(ZshCompletion(line.app()), Not(HasSubstr("such as 'layers")));
}

}  // namespace
}  // namespace msitd::msitctl
