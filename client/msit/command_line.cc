// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command_line.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/msit/bad_cases.h"
#include "client/msit/components.h"
#include "client/msit/file_comparison.h"
#include "client/msit/logger.h"
#include "client/msit/spelling.h"
#include "client/msit/tensor_view.h"
#include "client/query/interrupts.h"
#include "client/text/text.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

// Files are for their owner and its group only.
constexpr mode_t kUmask = 027;

constexpr char kLlmLogger[] = "msit_llm_logger";
constexpr char kCommonLogger[] = "msit_logger";

int Complain(int exit_code, std::string_view message) {
  fmt::print(stderr, "msit: {}\n", ctl::Printable(message));
  return exit_code;
}

// The verbs with their flags. Verbs that record need a program with the
// libraries of the accelerator; these are refused with what to use instead.
class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  int Run(const std::vector<std::string>& words);

 private:
  using Action = std::function<absl::Status(Logger&)>;
  struct Verb {
    std::string logger;
    Spelling spelling;
    Action action;
  };

  void AddLlm();
  void AddCompare(CLI::App& llm);
  void AddDebug();
  void AddTensorView();
  void AddComponentVerbs();
  CLI::App& AddVerb(CLI::App& above, const std::string& name,
                    const std::string& summary, const std::string& logger,
                    Action action);
  // The flag has to be there, unless the caller says otherwise.
  CLI::Option& AddFlag(CLI::App& verb, const std::string& long_name,
                       const std::string& short_name, const std::string& what,
                       std::string& value);
  void Refuse(CLI::App& above, const std::string& name,
              const std::string& alias, const std::string& instead);

  // The command that the first words name, and how many words that takes.
  std::pair<CLI::App*, size_t> FindCommand(
      const std::vector<std::string>& words);
  int RunVerb(const CLI::App& verb);

  CLI::App app_;
  std::string log_level_ = "info";
  // What flags of the verbs set; one verb runs.
  std::string golden_;
  std::string test_;
  std::string folder_;
  TensorViewOptions view_;
  CompareOptions compare_;
  std::vector<std::string> algorithms_;
  std::vector<std::string> components_;
  std::map<const CLI::App*, Verb> verbs_;
};

CommandLine::CommandLine() : app_("", "msit") {
  app_.description(
      "The command msit of the MindStudio inference tools, as far as msitd\n"
      "has it. docs/msit.md says what is different.");
  app_.set_help_flag("-h,--help", "Print help");
  AddLlm();
  AddDebug();
  AddTensorView();
  AddComponentVerbs();
}

CLI::App& CommandLine::AddVerb(CLI::App& above, const std::string& name,
                               const std::string& summary,
                               const std::string& logger, Action action) {
  CLI::App* verb = above.add_subcommand(name, summary);
  Verb& entry = verbs_[verb];
  entry.logger = logger;
  entry.action = std::move(action);
  verb->add_option("-l,--log-level", log_level_,
                   "debug, info, warning, error, fatal or critical; default "
                   "info")
      ->check(CLI::IsMember(
          {"debug", "info", "warning", "error", "fatal", "critical"}));
  entry.spelling.Add("--log-level", "-l");
  entry.spelling.Add("--help", "-h");
  return *verb;
}

CLI::Option& CommandLine::AddFlag(CLI::App& verb, const std::string& long_name,
                                  const std::string& short_name,
                                  const std::string& what, std::string& value) {
  verbs_.at(&verb).spelling.Add(long_name, short_name);
  // CLI11 has no names of several letters behind one dash.
  const bool is_plain = short_name.size() == 2;
  return *verb.add_option(is_plain ? short_name + "," + long_name : long_name,
                          value,
                          is_plain ? what : what + "; also " + short_name)
              ->required();
}

void CommandLine::Refuse(CLI::App& above, const std::string& name,
                         const std::string& alias, const std::string& instead) {
  const std::string full = fmt::format("{} {}", above.get_name(), name);
  CLI::App& verb = AddVerb(
      above, name, "Not in this build: " + instead, kCommonLogger,
      [full, instead](Logger&) {
        return MakeStatus(absl::StatusCode::kUnimplemented,
                          "msit {} is not in this build: {}", full, instead);
      });
  if (!alias.empty()) verb.alias(alias);
  verb.allow_extras();
}

void CommandLine::AddLlm() {
  CLI::App& llm =
      *app_.add_subcommand("llm", "Debugging tools for large language models");
  CLI::App& analyze = AddVerb(
      llm, "analyze", "Compare two evaluations by their queries", kLlmLogger,
      [this](Logger& log) { return AnalyzeQueries(golden_, test_, log); });
  AddFlag(analyze, "--golden", "-g", "CSV of the golden evaluation", golden_);
  AddFlag(analyze, "--test", "-t", "CSV of the other one", test_);
  CLI::App& by_key = AddVerb(
      llm, "bcanalyze", "Compare two evaluations by their keys", kLlmLogger,
      [this](Logger& log) { return AnalyzeKeys(golden_, test_, log); });
  AddFlag(by_key, "--golden-path", "-gp", "CSV of the golden evaluation",
          golden_);
  AddFlag(by_key, "--my-path", "-mp", "CSV of the other one", test_);

  AddCompare(llm);
  Refuse(llm, "dump", "dd",
         "record a PyTorch model with the Python package msitd");
  const std::string hardware = "it needs an Ascend device and ATB";
  Refuse(llm, "opcheck", "oo", hardware);
  Refuse(llm, "errcheck", "ee", hardware);
  Refuse(llm, "transform", "", hardware);
  Refuse(llm, "logitsdump", "",
         "record the logits of a PyTorch model with the Python package msitd");
  Refuse(llm, "logitscmp", "",
         "record the logits as runs and use msitctl compare run");
}

void CommandLine::AddCompare(CLI::App& llm) {
  CLI::App& compare = AddVerb(
      llm, "compare", "Compare two files with one tensor each", kLlmLogger,
      [this](Logger& log) {
        if (!algorithms_.empty()) {
          return MakeStatus(absl::StatusCode::kUnimplemented,
                            "--custom-algorithms is not in this build: use "
                            "msitctl compare run --plugin FILE.py:FUNCTION");
        }
        ctl::Interrupts interrupts;
        return CompareFiles(compare_, interrupts, log);
      });
  compare.alias("cc");
  AddFlag(compare, "--golden-path", "-gp", "Golden file", compare_.golden);
  AddFlag(compare, "--my-path", "-mp", "The other file", compare_.my);
  const std::string ignored = "Ignored for two files";
  AddFlag(compare, "--cmp-level", "-cl", ignored, compare_.level)
      .required(false);
  AddFlag(compare, "--output", "-o", ignored, compare_.output).required(false);
  AddFlag(compare, "--op-mapping-file", "-mf", ignored, compare_.mapping_folder)
      .required(false);
  AddFlag(compare, "--rank", "-r", ignored, compare_.rank).required(false);
  Spelling& spelling = verbs_.at(&compare).spelling;
  compare.add_flag("--stats", compare_.compares_statistics,
                   ignored + "; also -st");
  spelling.Add("--stats", "-st");
  compare.add_flag("-w,--weight", compare_.compares_weights,
                   "Refused for two files");
  spelling.Add("--weight", "-w");
  compare.add_option("--custom-algorithms", algorithms_,
                     "Not in this build; also -alg");
  spelling.Add("--custom-algorithms", "-alg");
}

void CommandLine::AddDebug() {
  CLI::App& debug = *app_.add_subcommand("debug", "Tools for MindIE Torch");
  Refuse(debug, "dump", "",
         "record a PyTorch model with the Python package msitd");
  Refuse(debug, "compare", "",
         "record both sides as runs and use msitctl compare run GOLDEN TARGET "
         "--mapping FILE");
}

void CommandLine::AddTensorView() {
  CLI::App& view = AddVerb(
      app_, "tensor-view", "Show, cut, permute and save a tensor",
      kCommonLogger, [this](Logger& log) { return ViewTensor(view_, log); });
  AddFlag(view, "--bin", "-b", "File with one tensor", view_.file);
  AddFlag(view, "--operations", "-op",
          "Slices [...] and permutations (...) with ; between them",
          view_.operations)
      .required(false);
  view.add_flag("-p,--print", view_.prints, "Print the tensor");
  verbs_.at(&view).spelling.Add("--print", "-p");
  AddFlag(view, "--output", "-o", "Save the tensor as .bin, .pth or .npy",
          view_.output)
      .required(false);
}

void CommandLine::AddComponentVerbs() {
  const auto add = [this](const std::string& name, const std::string& summary) {
    CLI::App& verb =
        AddVerb(app_, name, summary, kCommonLogger, [this](Logger& log) {
          ReportComponents(components_, log);
          return absl::OkStatus();
        });
    verb.add_option("components", components_, "all, llm, debug, tensor-view")
        ->required();
    return &verb;
  };
  const std::string links = "Ignored: nothing is fetched";
  for (const std::string name : {"install", "build-extra"}) {
    CLI::App* verb = add(name, "Say what is installed; fetches nothing");
    verb->add_option("-f,--find-links", folder_, links);
    verbs_.at(verb).spelling.Add("--find-links", "-f");
  }
  add("check", "Say what is installed");
  CLI::App* download =
      add("download", "Say what is installed; fetches nothing");
  AddFlag(*download, "--dest", "-d", links, folder_);
}

std::pair<CLI::App*, size_t> CommandLine::FindCommand(
    const std::vector<std::string>& words) {
  CLI::App* command = &app_;
  size_t used = 0;
  while (used < words.size()) {
    CLI::App* below = nullptr;
    for (CLI::App* sub :
         command->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->check_name(words[used])) below = sub;
    }
    if (below == nullptr) break;
    command = below;
    ++used;
  }
  return {command, used};
}

int CommandLine::RunVerb(const CLI::App& verb) {
  const Verb& entry = verbs_.at(&verb);
  Logger log(entry.logger, ParseLogLevel(log_level_).value_or(LogLevel::kInfo),
             stderr);
  const absl::Status status = entry.action(log);
  if (status.ok()) return kExitOk;
  return Complain(kExitError, Message(status));
}

int CommandLine::Run(const std::vector<std::string>& words) {
  const auto [command, used] = FindCommand(words);
  const auto behind = words.begin() + static_cast<std::ptrdiff_t>(used);
  std::vector<std::string> flags(behind, words.end());
  const auto verb = verbs_.find(command);
  if (verb == verbs_.end()) {
    // A group of verbs prints its help, as msit does.
    const bool wants_help =
        flags.empty() || flags[0] == "-h" || flags[0] == "--help";
    if (wants_help) {
      fmt::print("{}", command->help());
      return std::fflush(stdout) == 0 ? kExitOk : kExitError;
    }
    std::string name = "msit";
    for (size_t i = 0; i < used; ++i) name += " " + words[i];
    return Complain(kExitUsage,
                    fmt::format("\"{}\" is no command of {}; see {} --help",
                                flags[0], name, name));
  }
  flags = verb->second.spelling.Rewrite(flags);
  // CLI11 takes the arguments from the last to the first.
  std::vector<std::string> reversed(flags.rbegin(), flags.rend());
  for (size_t i = used; i > 0; --i) reversed.push_back(words[i - 1]);
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::Success& done) {
    return app_.exit(done) == 0 ? kExitOk : kExitError;
  } catch (const CLI::ParseError& error) {
    return Complain(kExitUsage,
                    fmt::format("{}; see msit {} --help", error.what(),
                                fmt::join(words.begin(), behind, " ")));
  }
  return RunVerb(*command);
}

}  // namespace

bool IsMsit(const char* program) {
  const std::string_view path = program == nullptr ? "" : program;
  return path.substr(path.rfind('/') + 1) == "msit";
}

int Run(int argc, char** argv) {
  umask(kUmask);
  return CommandLine().Run({argv + 1, argv + argc});
}

}  // namespace msitd::msit
