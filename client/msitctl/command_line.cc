// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/fanout/node_list.h"
#include "client/ask/query/daemon_choice.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/query/run_names.h"
#include "client/ask/text/nearest.h"
#include "client/ask/text/text.h"
#include "client/msitctl/comparison_name.h"
#include "client/msitctl/help.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

std::string Indent(const std::string& lines) {
  return "  " + CLI::detail::find_and_replace(lines, "\n", "\n  ");
}

std::string ExampleText(const std::string& examples) {
  return "Example:\n" + Indent(examples) + "\n";
}

int Report(const ask::Outcome& outcome) {
  if (!outcome.error.empty()) {
    fmt::print(stderr, "msitctl: {}\n", outcome.error);
  }
  return outcome.exit_code;
}

// Returns the first flag that ends with `=`. CLI11 would use the next argument
// as its value.
std::string FlagWithoutValue(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") break;
    if (argument.starts_with("--") &&
        argument.find('=') == argument.size() - 1) {
      return std::string(argument.substr(0, argument.size() - 1));
    }
  }
  return "";
}

// Returns the flag, or the variable that stands for it, that enables TLS.
std::string_view TlsFlag(const ask::ConnectionOptions& connection) {
  if (!connection.ca_file.empty()) return "--ca-file (MSITCTL_CA_FILE)";
  if (!connection.cert_file.empty()) return "--cert-file (MSITCTL_CERT_FILE)";
  return "--tls (MSITCTL_TLS)";
}

// The short names that verbs have in other tools.
constexpr std::pair<std::string_view, const char*> kAliases[] = {
    {"list", "ls"}, {"get", "show"}, {"delete", "rm"}};

// Completes the values of arguments that name comparisons. The type of an
// argument is also what completions go by.
ask::Outcome CompleteArguments(Invocation& invocation, CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_type_name() != "COMPARISON") continue;
    std::vector<std::string> values = option->results();
    for (std::string& value : values) {
      MSITCTL_RETURN_IF_FAILED(CompleteComparisonName(invocation, value));
    }
    if (values == option->results()) continue;
    option->clear();
    for (std::string& value : values) option->add_result(std::move(value));
    option->run_callback();
  }
  return {};
}

// Returns the flags that may follow a command: its own and those of its
// parents.
std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr;
       app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back("--" + name);
      }
    }
  }
  return names;
}

// Returns null if neither the command nor a parent has such a flag.
const CLI::Option* FindFlag(const CLI::App& command, const std::string& name) {
  for (const CLI::App* app = &command; app != nullptr;
       app = app->get_parent()) {
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option != nullptr) return option;
  }
  return nullptr;
}

bool AllowsPartial(const CLI::App& verb) {
  const CLI::Option* option = verb.get_option_no_throw("--allow-partial");
  return option != nullptr && option->count() > 0;
}

size_t PositionalsMax(const CLI::Option& option) {
  return static_cast<size_t>(option.get_items_expected_max());
}

bool WantsColor(bool no_color, bool is_terminal) {
  // The convention of https://no-color.org.
  const char* convention = std::getenv("NO_COLOR");
  return is_terminal && !no_color &&
         (convention == nullptr || *convention == '\0');
}

// Returns whether a flag is on the command line, and not only set by its
// variable.
bool IsTyped(const CLI::App& app, const std::string& flag,
             const char* variable) {
  const CLI::Option* option = app.get_option(flag);
  if (option->count() == 0) return false;
  const char* value = std::getenv(variable);
  return value == nullptr || option->as<std::string>() != value;
}

// All other exit codes are those of the command that the verb runs.
bool RunsACommand(const CLI::App& command) {
  return command.get_name() == "exec" || command.get_name() == "bisect";
}

}  // namespace

std::vector<const CLI::App*> SubcommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* sub : SubcommandsOf(app)) {
    if (sub->check_name(name)) return sub;
  }
  return nullptr;
}

CommandLine::CommandLine() : app_("", "msitctl") {
  app_.description(
      "Lists, reads and compares the tensors that a msitd daemon stores.");
  app_.footer(
      "Example:\n"
      "  msitctl run list\n"
      "  msitctl --endpoint node7:7741 compare run golden-fp32 tp8-bf16\n");
  app_.formatter(std::make_shared<HelpFormatter>());
  app_.set_version_flag("--version", "msitctl " MSITCTL_VERSION);
  app_.set_help_flag("-h,--help", "Print help");
  app_.require_subcommand(1);
  AddGlobalFlags();
  AddRunCommands(*this);
  AddTensorCommands(*this);
  AddCompareCommands(*this);
  AddCaptureCommands(*this);
  AddNodeCommands(*this);
  AddWatchCommand(*this);
  AddExecCommand(*this);
  AddBisectCommand(*this);
  AddVerifyCommand(*this);
  AddWebCommand(*this);
  AddBatchCommand(*this);
  AddMcpCommand(*this);
  AddCompletionCommand(*this);
  AddHelpCommand(*this);
}

void CommandLine::AddGlobalFlags() {
  app_.add_option("--endpoint", globals_.endpoint,
                  "Address of the daemon: HOST:PORT, unix:PATH or /PATH, or "
                  "`personal` for your own daemon. Default: the service of "
                  "this machine, or your own daemon if there is none. With "
                  "TLS: 127.0.0.1:7741 [MSITD_ENDPOINT]")
      ->type_name("E");
  app_.add_flag("--no-start", globals_.no_start,
                "Do not start your own daemon if none runs [MSITD_START=0]");
  app_.add_option(
          "--endpoints", globals_.endpoints,
          "Several daemons whose answers are merged, separated by commas: "
          "endpoints, dns:///HOST:PORT for all addresses of a host, or slurm: "
          "or slurm:PORT for the nodes of the job [MSITCTL_ENDPOINTS]")
      ->type_name("LIST")
      ->envname("MSITCTL_ENDPOINTS");
  app_.add_option("--endpoints-file", globals_.endpoints_file,
                  "File with such a list on each line [MSITCTL_ENDPOINTS_FILE]")
      ->type_name("FILE")
      ->envname("MSITCTL_ENDPOINTS_FILE");
  app_.add_option("--node-timeout", globals_.node_timeout,
                  "Time limit for each call to one of several daemons. Without "
                  "an answer by then, the result is partial; default 10s "
                  "[MSITCTL_NODE_TIMEOUT]")
      ->type_name("TIME")
      ->envname("MSITCTL_NODE_TIMEOUT");
  app_.add_flag("--tls", globals_.tls, "Connect with TLS [MSITCTL_TLS]")
      ->envname("MSITCTL_TLS");
  app_.add_option("--ca-file", globals_.ca_file,
                  "Trust these PEM certificates; implies --tls "
                  "[MSITCTL_CA_FILE]")
      ->type_name("FILE")
      ->envname("MSITCTL_CA_FILE");
  app_.add_option("--cert-file", globals_.cert_file,
                  "PEM certificate that identifies you to the daemon; implies "
                  "--tls, requires --key-file [MSITCTL_CERT_FILE]")
      ->type_name("FILE")
      ->envname("MSITCTL_CERT_FILE");
  app_.add_option("--key-file", globals_.key_file,
                  "Private key of --cert-file, PEM [MSITCTL_KEY_FILE]")
      ->type_name("FILE")
      ->envname("MSITCTL_KEY_FILE");
  app_.add_option("--timeout", globals_.timeout,
                  "Time limit for the whole command, such as 30s. Default: 60s "
                  "for each call, 24h for a wait or a stream [MSITCTL_TIMEOUT]")
      ->type_name("TIME")
      ->envname("MSITCTL_TIMEOUT");
  app_.add_option("--connect-timeout", globals_.connect_timeout,
                  "Time limit for connecting to the daemon; default 5s "
                  "[MSITCTL_CONNECT_TIMEOUT]")
      ->type_name("TIME")
      ->envname("MSITCTL_CONNECT_TIMEOUT");
  app_.add_option(
          "-o,--output", globals_.output,
          "Output format: table (default), json, csv or name [MSITCTL_OUTPUT]")
      ->type_name("FORMAT")
      ->envname("MSITCTL_OUTPUT");
  app_.add_flag("--no-color", globals_.no_color,
                "Print no color, even on a terminal [MSITCTL_NO_COLOR]")
      ->envname("MSITCTL_NO_COLOR");
  app_.add_flag("--guard-formulas", globals_.guard_formulas,
                "In CSV, put ' before text that begins with = + - or @, which "
                "spreadsheets run as a formula [MSITCTL_GUARD_FORMULAS]")
      ->envname("MSITCTL_GUARD_FORMULAS");
  app_.add_flag("--progress,!--no-progress", globals_.progress,
                "Show progress on stderr; default: only if it is a terminal "
                "[MSITCTL_PROGRESS]")
      ->envname("MSITCTL_PROGRESS");
}

std::vector<std::string> CommandLine::ConnectionWords() const {
  std::vector<std::string> words;
  for (const char* const name :
       {"--endpoint", "--no-start", "--endpoints", "--endpoints-file",
        "--node-timeout", "--tls", "--ca-file", "--cert-file", "--key-file",
        "--timeout", "--connect-timeout"}) {
    const CLI::Option& option = *app_.get_option(name);
    if (option.count() == 0) continue;
    words.push_back(
        fmt::format("{}={}", name, fmt::join(option.results(), ",")));
  }
  return words;
}

CLI::App& CommandLine::AddNoun(const std::string& name,
                               const std::string& summary,
                               const std::string& examples) {
  CLI::App* noun = app_.add_subcommand(name, summary);
  noun->footer(ExampleText(examples));
  noun->require_subcommand(1);
  noun->fallthrough();
  noun->group("Commands");
  return *noun;
}

CLI::App& CommandLine::AddVerb(CLI::App& noun, const VerbHelp& help,
                               Action action) {
  CLI::App* verb = noun.add_subcommand(help.name, help.summary);
  std::string footer = ExampleText(help.examples);
  if (!help.rpcs.empty()) {
    footer +=
        "\nRPC: " + CLI::detail::find_and_replace(help.rpcs, ", ", ",\n     ") +
        "\n";
  }
  verb->footer(footer);
  verb->fallthrough();
  verb->group("Commands");
  for (const auto& [name, alias] : kAliases) {
    if (name == help.name) verb->alias(alias);
  }
  actions_[verb] = std::move(action);
  if (help.takes_nodes) take_nodes_.insert(verb);
  return *verb;
}

absl::StatusOr<std::vector<ask::ConnectionOptions>> CommandLine::MakeNodes(
    const ask::ConnectionOptions& of_all) const {
  const bool has_list = IsTyped(app_, "--endpoints", "MSITCTL_ENDPOINTS");
  const bool has_file =
      IsTyped(app_, "--endpoints-file", "MSITCTL_ENDPOINTS_FILE");
  const bool has_one = !globals_.endpoint.empty();
  if (has_list + has_file + has_one > 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--endpoint, --endpoints and --endpoints-file exclude "
                      "each other");
  }
  // A flag overrides the variables of the others.
  const bool takes_list =
      has_list || (!has_file && !globals_.endpoints.empty());
  if (has_one || (!takes_list && globals_.endpoints_file.empty())) {
    return std::vector<ask::ConnectionOptions>();
  }
  const auto addresses = takes_list ? ask::ParseNodes(globals_.endpoints)
                                    : ask::ReadNodes(globals_.endpoints_file);
  if (!addresses.ok()) {
    return Annotate(addresses.status(),
                    takes_list ? "--endpoints" : "--endpoints-file");
  }
  const auto timeout = ask::ParseDuration(globals_.node_timeout);
  if (!timeout.ok()) return Annotate(timeout.status(), "--node-timeout");
  std::vector<ask::ConnectionOptions> nodes;
  for (const ask::NodeAddress& address : *addresses) {
    ask::ConnectionOptions& node = nodes.emplace_back(of_all);
    node.endpoint = address.endpoint;
    node.personal_dir.clear();
    node.problem.clear();
    node.tls_host = address.host;
    node.call_timeout = *timeout;
    node.connect_timeout = std::min(node.connect_timeout, *timeout);
    MSITD_ASSIGN_OR_RETURN(node.target, ask::ParseEndpoint(node.endpoint));
    if (node.tls && node.target.starts_with("unix:")) {
      return MakeStatus(
          absl::StatusCode::kInvalidArgument,
          "{} cannot be used with {}: a Unix socket is not encrypted",
          TlsFlag(node), node.endpoint);
    }
  }
  return nodes;
}

absl::StatusOr<InvocationOptions> CommandLine::MakeInvocationOptions() const {
  InvocationOptions options;
  ask::ConnectionOptions& connection = options.connection;
  connection.ca_file = globals_.ca_file;
  connection.cert_file = globals_.cert_file;
  connection.key_file = globals_.key_file;
  if (connection.cert_file.empty() != connection.key_file.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--cert-file and --key-file must be used together");
  }
  connection.tls = globals_.tls || !connection.ca_file.empty() ||
                   !connection.cert_file.empty();
  // Nodes have their own endpoints.
  const bool has_nodes =
      !globals_.endpoints.empty() || !globals_.endpoints_file.empty();
  MSITD_RETURN_IF_ERROR(ask::ChooseDaemon(
      globals_.endpoint,
      globals_.no_start ? endpoint::Start::kNo : endpoint::Start::kAuto,
      connection));
  if (!has_nodes && connection.tls && connection.target.starts_with("unix:")) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} cannot be used with {}: a Unix socket is not "
                      "encrypted. Remove it, or use --endpoint HOST:PORT",
                      TlsFlag(connection), connection.endpoint);
  }
  if (!globals_.timeout.empty()) {
    auto timeout = ask::ParseDuration(globals_.timeout);
    if (!timeout.ok()) return Annotate(timeout.status(), "--timeout");
    connection.timeout = *timeout;
  }
  auto connect_timeout = ask::ParseDuration(globals_.connect_timeout);
  if (!connect_timeout.ok()) {
    return Annotate(connect_timeout.status(), "--connect-timeout");
  }
  connection.connect_timeout = *connect_timeout;
  MSITD_ASSIGN_OR_RETURN(options.nodes, MakeNodes(connection));
  const auto format = ask::ParseFormat(globals_.output);
  if (!format.has_value()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--output \"{}\" is not table, json, csv or name",
                      globals_.output);
  }
  options.format = *format;
  options.terminal = ask::Terminal::Detect();
  options.color =
      WantsColor(globals_.no_color, options.terminal.stdout_is_terminal);
  options.guards_formulas = globals_.guard_formulas;
  options.progress =
      globals_.progress > 0 ||
      (globals_.progress == 0 && options.terminal.stderr_is_terminal);
  return options;
}

CLI::App* CommandLine::ParsedCommand() {
  CLI::App* app = &app_;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

CommandLine::Slip CommandLine::FindSlip(
    const std::vector<std::string>& words) const {
  const CLI::App* command = &app_;
  std::vector<std::string> arguments;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    const std::vector<const CLI::App*> below = SubcommandsOf(*command);
    if (word.starts_with("-") && word.size() > 1) {
      const std::string name = word.substr(0, word.find('='));
      const CLI::Option* option = FindFlag(*command, name);
      if (option == nullptr && name.starts_with("--")) {
        return {command, fmt::format("{} is not a flag of {}{}",
                                     ask::Printable(name), FullName(*command),
                                     ask::DidYouMean(name, FlagsOf(*command)))};
      }
      const bool takes_next = option != nullptr && name == word &&
                              option->get_items_expected_max() > 0;
      if (takes_next) ++i;
    } else if (below.empty()) {
      arguments.push_back(word);
    } else {
      const CLI::App* found = FindCommand(*command, word);
      if (found == nullptr) {
        std::vector<std::string> names;
        for (const CLI::App* sub : below) names.push_back(sub->get_name());
        return {command, fmt::format("\"{}\" is not a command of {}{}",
                                     ask::Printable(word), FullName(*command),
                                     ask::DidYouMean(word, names))};
      }
      command = found;
    }
  }
  if (!SubcommandsOf(*command).empty())
    return {command, "a command is missing"};
  size_t taken = 0;
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) taken += PositionalsMax(*option);
  }
  if (arguments.size() <= taken) return {command, ""};
  arguments.erase(arguments.begin(),
                  arguments.begin() + static_cast<std::ptrdiff_t>(taken));
  return {command,
          fmt::format(
              "unexpected argument{}: {}", arguments.size() == 1 ? "" : "s",
              ask::Printable(fmt::format("{}", fmt::join(arguments, " "))))};
}

std::string CommandLine::EmptyOption() {
  for (const CLI::App* app = ParsedCommand(); app != nullptr;
       app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_items_expected_max() == 0) continue;
      // Arguments that are passed on to another command may be empty.
      if (option->get_positional() && PositionalsMax(*option) > 1) continue;
      const std::vector<std::string>& values = option->results();
      if (std::find(values.begin(), values.end(), "") != values.end()) {
        return option->get_name();
      }
    }
  }
  return "";
}

ask::Outcome CommandLine::RunVerb() {
  if (const std::string name = EmptyOption(); !name.empty()) {
    return ask::UsageError(fmt::format("{}: the value is empty", name));
  }
  InvocationOptions options;
  MSITCTL_ASSIGN_OR_USAGE(options, MakeInvocationOptions());
  CLI::App* const verb = ParsedCommand();
  if (!options.nodes.empty() && !take_nodes_.contains(verb)) {
    return ask::UsageError(
        fmt::format("{} supports a single daemon only: use --endpoint instead "
                    "of --endpoints",
                    FullName(*verb)));
  }
  ask::Interrupts interrupts;
  ask::Output out(stdout);
  Invocation invocation(std::move(options), interrupts, out);
  ask::Outcome outcome = CompleteArguments(invocation, *verb);
  if (outcome.ok()) outcome = actions_.at(verb)(invocation);
  if (outcome.ok() && invocation.node_fanout() != nullptr &&
      invocation.node_fanout()->has_failed() && !AllowsPartial(*verb)) {
    outcome.exit_code = ask::kExitPartial;
  }
  if (!outcome.missing_run.empty()) {
    outcome.error += ask::RunLike(invocation, outcome.missing_run);
  }
  ask::Outcome written = out.Finish();
  const bool has_printed = outcome.exit_code == ask::kExitOk ||
                           outcome.exit_code == ask::kExitPolicyFailed ||
                           outcome.exit_code == ask::kExitPartial;
  return has_printed ? (written.ok() ? outcome : written) : outcome;
}

int CommandLine::Run(int argc, char** argv) {
  if (const std::string flag = FlagWithoutValue(argc, argv); !flag.empty()) {
    return Report(ask::UsageError(fmt::format("{}: the value is empty", flag)));
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& done) {
    // --help and --version.
    return app_.exit(done) == 0 && std::fflush(stdout) == 0 ? ask::kExitOk
                                                            : ask::kExitLocal;
  } catch (const CLI::ParseError& error) {
    if (argc == 1) {
      fmt::print("{}", app_.help());
      return std::fflush(stdout) == 0 ? ask::kExitOk : ask::kExitLocal;
    }
    const Slip slip = FindSlip({argv + 1, argv + argc});
    ask::Outcome wrong = ask::UsageError(fmt::format(
        "{}; see {} --help", slip.what.empty() ? error.what() : slip.what,
        FullName(*slip.command)));
    if (RunsACommand(*slip.command)) {
      wrong.exit_code = ask::kExitExecFailed;
      wrong.error += "; arguments after -- are passed to the command";
    }
    return Report(wrong);
  }
  return Report(RunVerb());
}

}  // namespace msitd::msitctl
