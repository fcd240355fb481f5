// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/help.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "client/msitctl/command_line.h"
#include "msitd/v1/comparison_service.pb.h"
#include "msitd/v1/ingest_service.pb.h"
#include "msitd/v1/node_service.pb.h"
#include "msitd/v1/run_service.pb.h"
#include "msitd/v1/tensor_service.pb.h"

namespace msitd::msitctl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::vector<CLI::App*> Subcommands(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

std::vector<CLI::App*> Verbs(CLI::App& root) {
  std::vector<CLI::App*> verbs;
  for (CLI::App* noun : Subcommands(root)) {
    const auto below = Subcommands(*noun);
    verbs.insert(verbs.end(), below.begin(), below.end());
    if (below.empty()) verbs.push_back(noun);
  }
  return verbs;
}

std::vector<std::string> ExamplesOf(const std::string& help) {
  std::vector<std::string> examples;
  std::istringstream lines(help);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) {
    examples.push_back(line.substr(2));
  }
  return examples;
}

// Returns the RPCs that the help names, such as "RunService.GetRun".
std::vector<std::string> RpcsOf(const std::string& help) {
  std::vector<std::string> rpcs;
  std::istringstream words(help.substr(help.find("\nRPC: ") + 6));
  std::string word;
  while (words >> word) {
    const bool is_last = word.back() != ',';
    if (!is_last) word.pop_back();
    rpcs.push_back(word);
    if (is_last) break;
  }
  return rpcs;
}

bool CallsNothing(const CLI::App& verb) {
  return FullName(verb).starts_with("msitctl completion ") ||
         FullName(verb) == "msitctl help" ||
         // The commands that they run make calls.
         FullName(verb) == "msitctl batch" || FullName(verb) == "msitctl mcp";
}

TEST(HelpTest, EveryVerbShowsAnExampleFirst) {
  CommandLine line;
  for (CLI::App* verb : Verbs(line.app())) {
    SCOPED_TRACE(FullName(*verb));
    const std::string help = verb->help();
    EXPECT_THAT(help, StartsWith("Example:\n  msitctl"));
    for (const std::string& example : ExamplesOf(help)) {
      EXPECT_THAT(example, HasSubstr(" " + verb->get_name()));
    }
  }
}

TEST(HelpTest, EveryNounShowsExamplesOfItsOwnVerbs) {
  CommandLine line;
  for (CLI::App* noun : Subcommands(line.app())) {
    if (Subcommands(*noun).empty()) continue;
    SCOPED_TRACE(FullName(*noun));
    const auto examples = ExamplesOf(noun->help());
    EXPECT_FALSE(examples.empty());
    for (const std::string& example : examples) {
      EXPECT_THAT(example, StartsWith(FullName(*noun) + " "));
    }
  }
}

TEST(HelpTest, EveryExampleParses) {
  CommandLine names;
  std::vector<CLI::App*> commands = Verbs(names.app());
  for (CLI::App* noun : Subcommands(names.app())) commands.push_back(noun);
  for (CLI::App* command : commands) {
    for (const std::string& example : ExamplesOf(command->help())) {
      SCOPED_TRACE(example);
      auto words =
          CLI::detail::split_up(example.substr(0, example.find(" > ")));
      for (std::string& word : words) CLI::detail::remove_quotes(word);
      words.erase(words.begin());
      std::reverse(words.begin(), words.end());
      CommandLine line;
      EXPECT_NO_THROW(line.app().parse(words));
      CLI::App* parsed = &line.app();
      while (!parsed->get_subcommands().empty()) {
        parsed = parsed->get_subcommands().front();
      }
      EXPECT_THAT(FullName(*parsed), StartsWith(FullName(*command)));
    }
  }
}

TEST(HelpTest, EveryVerbNamesCallsThatExist) {
  // Links the generated code of IngestService, which only clients of the
  // transport use.
  v1::WriteChunksRequest::descriptor();
  CommandLine line;
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  for (CLI::App* verb : Verbs(line.app())) {
    if (CallsNothing(*verb)) continue;
    SCOPED_TRACE(FullName(*verb));
    const std::string help = verb->help();
    ASSERT_THAT(help, HasSubstr("\nRPC: "));
    for (const std::string& rpc : RpcsOf(help)) {
      EXPECT_NE(pool.FindMethodByName("msitd.v1." + rpc), nullptr) << rpc;
    }
  }
}

TEST(HelpTest, EveryCallOfAUserHasAVerb) {
  CommandLine line;
  std::set<std::string> named;
  for (CLI::App* verb : Verbs(line.app())) {
    if (CallsNothing(*verb)) continue;
    const auto rpcs = RpcsOf(verb->help());
    named.insert(rpcs.begin(), rpcs.end());
  }
  // Scripts use the list of rows. The stream is for programs, and so is the
  // call that plans the parts of a comparison.
  named.insert("ComparisonService.StreamComparisonRows");
  named.insert("ComparisonService.PlanComparison");
  const google::protobuf::FileDescriptor* files[] = {
      v1::Run::descriptor()->file(), v1::Tensor::descriptor()->file(),
      v1::Comparison::descriptor()->file(),
      v1::NodeStatus::descriptor()->file()};
  for (const auto* file : files) {
    const auto& service = *file->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      EXPECT_THAT(named,
                  Contains(service.name() + "." + service.method(i)->name()));
    }
  }
}

TEST(HelpTest, EveryFlagOfEveryVerbIsLongAndDescribed) {
  CommandLine line;
  for (CLI::App* verb : Verbs(line.app())) {
    for (const CLI::Option* option : verb->get_options()) {
      SCOPED_TRACE(FullName(*verb) + " " + option->get_name(true, true));
      EXPECT_TRUE(option->get_positional() || !option->get_lnames().empty());
      EXPECT_FALSE(option->get_description().empty());
    }
  }
}

TEST(HelpTest, EveryGlobalFlagHasItsVariable) {
  CommandLine line;
  std::set<std::string> variables;
  for (const CLI::Option* option : line.app().get_options()) {
    if (!option->get_envname().empty()) variables.insert(option->get_envname());
  }
  EXPECT_THAT(
      variables,
      UnorderedElementsAre(
          "MSITCTL_ENDPOINTS", "MSITCTL_ENDPOINTS_FILE", "MSITCTL_NODE_TIMEOUT",
          "MSITCTL_TLS", "MSITCTL_CA_FILE", "MSITCTL_CERT_FILE",
          "MSITCTL_KEY_FILE", "MSITCTL_TIMEOUT", "MSITCTL_CONNECT_TIMEOUT",
          "MSITCTL_OUTPUT", "MSITCTL_NO_COLOR", "MSITCTL_GUARD_FORMULAS",
          "MSITCTL_PROGRESS"));
}

TEST(HelpTest, TheManyFlagsOfAComparisonAreInGroups) {
  CommandLine line;
  const CLI::App* const verb =
      line.app().get_subcommand("compare")->get_subcommand("run");
  EXPECT_THAT(verb->get_groups(),
              ElementsAre("Options", "Select", "Pair", "Judge", "Read",
                          "Output", "Parts"));
  for (const CLI::Option* option : verb->get_options()) {
    if (option == verb->get_help_ptr()) continue;
    EXPECT_NE(option->get_group(), "Options") << option->get_name();
  }
}

TEST(HelpTest, LinesFitEightyColumns) {
  CommandLine line;
  std::vector<CLI::App*> apps = Verbs(line.app());
  apps.push_back(&line.app());
  for (CLI::App* app : apps) {
    const std::string help = app->help();
    std::istringstream lines(help.substr(help.find("\n\n")));
    for (std::string text; std::getline(lines, text);) {
      EXPECT_LE(text.size(), 80u) << text;
    }
  }
}

}  // namespace
}  // namespace msitd::msitctl
