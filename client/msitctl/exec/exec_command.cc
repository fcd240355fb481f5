// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/ask/query/child_command.h"
#include "client/ask/query/endpoint.h"
#include "client/ask/query/exit_code.h"
#include "client/ask/query/private_daemon.h"
#include "client/ask/text/text.h"
#include "client/foreign/write/writer/json_writer.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/exec/exec_site.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::string_view kSocketName = "/msitd.sock";

ask::Outcome OwnFailure(std::string message) {
  return {ask::kExitExecFailed, std::move(message)};
}

void Note(const std::string& text) {
  fmt::print(stderr, "msitctl exec: {}\n", ask::Printable(text));
}

// Returns true for `OLD=NEW`, each with at least one character.
bool IsPair(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != text.npos && equals > 0 && equals + 1 < text.size();
}

std::string NameOf(const std::vector<std::string>& words) {
  // The script, if the command is an interpreter.
  for (const std::string& word : words) {
    const std::filesystem::path path(word);
    if (path.extension() == ".py") return path.stem().string();
  }
  return std::filesystem::path(words.front()).filename().string();
}

// Returns `exec-<script>-<time>`, in UTC.
std::string DefaultRun(const std::vector<std::string>& words) {
  constexpr size_t kNameBytesMax = 64;
  const auto now =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char time[32];
  std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("exec-{}-{}", NameOf(words).substr(0, kNameBytesMax),
                     time);
}

// Returns the pair with an absolute path, for a process in another folder.
std::string WithAbsolute(const std::string& pair) {
  const size_t equals = pair.find('=');
  return pair.substr(0, equals + 1) +
         std::filesystem::absolute(pair.substr(equals + 1)).string();
}

// Returns the settings for the package msitd; see
// client/python/msitd/_exec/settings.py.
std::string SettingsOf(const ExecFlags& flags, const ExecSite& site) {
  write::JsonWriter out(0);
  const auto list = [&out](std::string_view name,
                           const std::vector<std::string>& texts) {
    out.Key(name).BeginList();
    for (const std::string& text : texts) out.Text(text);
    out.EndList();
  };
  out.BeginObject().Field("folder", site.folder());
  out.Field("level", flags.level).Field("stack", flags.stack);
  out.Key("weights").Bool(flags.weights);
  out.Key("gradients").Bool(flags.gradients);
  out.Key("aliases").Bool(flags.aliases);
  list("inject", flags.inject);
  out.Field("inject_what", flags.inject_what);
  out.Field("inject_rank", int64_t{flags.inject_rank});
  list("ops", flags.ops);
  std::vector<std::string> paths;
  for (const std::string& pair : flags.map_paths) {
    paths.push_back(WithAbsolute(pair));
  }
  list("map_path", paths);
  list("map_device", flags.map_devices);
  return out.EndObject().Take();
}

// Returns the endpoint to which clients record, for a daemon that is queried at
// `endpoint`.
std::string RecordEndpoint(const std::string& endpoint) {
  std::string_view path = endpoint;
  if (path.starts_with(kUnixPrefix)) path.remove_prefix(kUnixPrefix.size());
  if (!path.starts_with('/')) return endpoint;
  if (path.ends_with(kSocketName)) path.remove_suffix(kSocketName.size());
  return fmt::format("{}{}", kUnixPrefix, path);
}

// The daemon to which a command records.
struct Target {
  std::unique_ptr<ask::PrivateDaemon> daemon;
  std::unique_ptr<ask::Connection> own;
  ask::Connection* connection = nullptr;
  std::string endpoint;
  // The endpoint for the clients of the command.
  std::string record_endpoint;
  std::string store;
  // Whether the store is removed if it is empty.
  bool is_store_ours = false;

  ~Target() {
    daemon.reset();
    std::error_code ignored;
    if (is_store_ours) std::filesystem::remove_all(store, ignored);
  }
};

absl::Status Reach(ask::Connection& connection) {
  v1::ListRunsRequest request;
  request.set_page_size(1);
  v1::ListRunsResponse response;
  const ask::Outcome outcome =
      connection.Ask(&v1::RunService::Stub::ListRuns, request, response);
  if (outcome.ok()) return absl::OkStatus();
  return absl::UnavailableError(outcome.error);
}

std::string StoreOf(std::string run) {
  std::replace(run.begin(), run.end(), '/', '_');
  return "msitd-" + run;
}

ask::Outcome Connect(const std::string& endpoint, Invocation& invocation,
                     Target& target) {
  ask::ConnectionOptions options;
  options.endpoint = target.endpoint = endpoint;
  target.record_endpoint = RecordEndpoint(endpoint);
  options.connect_timeout = invocation.options().connection.connect_timeout;
  const auto parsed = ask::ParseEndpoint(endpoint);
  if (!parsed.ok()) return OwnFailure(std::string(Message(parsed.status())));
  options.target = *parsed;
  target.own = std::make_unique<ask::Connection>(std::move(options),
                                                 invocation.interrupts());
  target.connection = target.own.get();
  return {};
}

ask::Outcome StartPrivate(Invocation& invocation, const ExecFlags& flags,
                          const std::string& run, Target& target) {
  ask::PrivateDaemonOptions daemon;
  target.store = flags.data_dir.empty() ? StoreOf(run) : flags.data_dir;
  // The store may contain the runs of an earlier command.
  target.is_store_ours =
      flags.data_dir.empty() && !std::filesystem::exists(target.store);
  daemon.kept_store = target.store;
  auto started = ask::PrivateDaemon::Start(daemon, invocation.interrupts());
  if (!started.ok()) return OwnFailure(std::string(Message(started.status())));
  target.daemon = *std::move(started);
  return Connect(target.daemon->endpoint(), invocation, target);
}

// Returns whether the daemon of the user would record, but must be allowed to
// start. A daemon that ends with the command needs no permission.
bool LacksPermission(const ask::ConnectionOptions& options) {
  const auto around = endpoint::Surroundings::OfProcess();
  return !options.personal_dir.empty() &&
         options.start == endpoint::Start::kAuto &&
         around.variable("MSITD_START").empty() &&
         !endpoint::IsListening(options.personal_dir) &&
         !endpoint::WhyNotStart(options.start, around).empty();
}

ask::Outcome FindTarget(Invocation& invocation, const ExecFlags& flags,
                        const std::string& run, Target& target) {
  if (flags.is_private || !flags.data_dir.empty()) {
    return StartPrivate(invocation, flags, run, target);
  }
  const ask::ConnectionOptions& options = invocation.options().connection;
  if (LacksPermission(options)) {
    MSITCTL_RETURN_IF_FAILED(StartPrivate(invocation, flags, run, target));
    Note(
        fmt::format("no msitd runs on this machine; this command starts one "
                    "that records into {}; to record into a store of your own "
                    "instead, which msitctl finds: MSITD_START=1",
                    target.store));
    return {};
  }
  target.endpoint = options.endpoint;
  target.record_endpoint = RecordEndpoint(options.endpoint);
  if (!options.personal_dir.empty()) {
    // The daemon may end before the command opens its first client.
    target.endpoint = target.record_endpoint = endpoint::kPersonal;
  }
  target.connection = &invocation;
  const absl::Status reached = Reach(invocation);
  return reached.ok() ? ask::Outcome()
                      : OwnFailure(std::string(Message(reached)));
}

// Returns the runs that were sealed.
std::vector<std::string> Seal(ask::Connection& connection,
                              const std::vector<std::string>& runs) {
  std::vector<std::string> sealed;
  for (const std::string& run : runs) {
    v1::SealRunRequest seal;
    seal.set_run(run);
    v1::Run ignored;
    const ask::Outcome done =
        connection.Ask(&v1::RunService::Stub::SealRun, seal, ignored);
    if (done.ok()) {
      sealed.push_back(run);
    } else {
      Note(fmt::format("{} was not sealed: {}", run, done.error));
    }
  }
  return sealed;
}

ask::Environment ChildEnvironment(const ExecFlags& flags,
                                  const std::string& run, const Target& target,
                                  const ExecSite& site) {
  const char* const before = std::getenv("PYTHONPATH");
  const bool has_others = before != nullptr && *before != '\0';
  ask::Environment out = {
      {"MSITD_RUN", run},
      {"MSITD_ENDPOINT", target.record_endpoint},
      {"MSITCTL_ENDPOINT", target.endpoint},
      {"MSITD_EXEC", SettingsOf(flags, site)},
      {"PYTHONPATH", has_others ? fmt::format("{}:{}", site.folder(), before)
                                : site.folder()},
  };
  return out;
}

}  // namespace

ask::Outcome Exec(Invocation& invocation, const ExecFlags& flags,
                  const AfterExec& then) {
  for (const auto* pairs : {&flags.map_paths, &flags.map_devices}) {
    for (const std::string& pair : *pairs) {
      if (!IsPair(pair)) {
        return OwnFailure(fmt::format("\"{}\" is not OLD=NEW", pair));
      }
    }
  }
  const std::string run =
      flags.run.empty() ? DefaultRun(flags.words) : flags.run;
  // A process could only report that its models are not recorded.
  if (run.size() > kRunNameBytesMax || !IsValidUtf8(run)) {
    return OwnFailure(fmt::format(
        "the name of the run has {} bytes; it must have 1 to {} bytes of UTF-8",
        run.size(), kRunNameBytesMax));
  }
  Target target;
  MSITCTL_RETURN_IF_FAILED(FindTarget(invocation, flags, run, target));
  auto site = ExecSite::Make();
  if (!site.ok()) return OwnFailure(std::string(Message(site.status())));
  const ask::Environment environment =
      ChildEnvironment(flags, run, target, *site);
  const auto ended = [&] {
    const ask::Interrupts::Handover handover(invocation.interrupts());
    return ask::RunCommand(flags.words, environment);
  }();
  if (!ended.ok()) {
    std::string message(Message(ended.status()));
    if (absl::IsNotFound(ended.status())) {
      return {ask::kExitCommandNotFound, std::move(message)};
    }
    const bool cannot = absl::IsPermissionDenied(ended.status()) ||
                        absl::IsFailedPrecondition(ended.status()) ||
                        absl::IsInvalidArgument(ended.status());
    return {cannot ? ask::kExitCannotRun : ask::kExitExecFailed,
            std::move(message)};
  }
  const std::vector<std::string> runs = site->Runs();
  const std::vector<std::string> sealed = Seal(*target.connection, runs);
  if (!sealed.empty()) {
    Note(fmt::format("recorded {}; to show it: msitctl run get {}",
                     fmt::join(sealed, ", "), sealed.front()));
  } else if (!runs.empty()) {
    // The error was already printed.
  } else if (!site->WasUsed()) {
    Note(
        "nothing was recorded: the command ran no Python, or one that ignores "
        "PYTHONPATH");
  } else if (!site->HasFailed()) {
    Note("nothing was recorded: no torch module was called");
  }
  if (!runs.empty()) target.is_store_ours = false;
  if (target.daemon != nullptr && !runs.empty()) {
    Note(fmt::format("the daemon stops; to start it again: msitd --data-dir {}",
                     target.store));
  }
  // The exit code of the command, without a message.
  if (then == nullptr || runs.empty()) return {*ended, ""};
  return then(*target.connection, runs, *ended);
}

void AddExecCommand(CommandLine& line) {
  auto flags = std::make_shared<ExecFlags>();
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "exec",
       .summary = "Run a command, and record the torch models that its Python "
                  "processes call. Exits with the status of the command; 125 "
                  "to 127 are failures of exec.",
       .examples =
           "msitctl exec -- python generate.py\n"
           "msitctl exec --run tp2 --ops 'root.layers.*' --gradients -- "
           "torchrun train.py\n"
           "msitctl exec --map-path /data=/mnt/data --map-device npu=cpu -- "
           "python dump_with_msprobe.py",
       .rpcs = "RunService.ListRuns, RunService.SealRun, "
               "IngestService.WriteChunks"},
      [flags](Invocation& invocation) {
        return Exec(invocation, *flags, nullptr);
      });
  AddExecFlags(verb, *flags);
  AddTexts(verb, "--inject", flags->inject,
           "Pass the inputs that this run recorded to modules, so that each "
           "result depends only on its module. Repeatable; the first run with "
           "an input is used")
      ->type_name("RUN");
  verb.add_option("--inject-what", flags->inject_what,
                  "outputs: the outputs of modules are recorded, and the "
                  "following code receives the outputs of the run instead")
      ->check(OneOf({"inputs", "outputs"}))
      ->type_name("SIDE")
      ->capture_default_str();
  verb.add_option("--inject-rank", flags->inject_rank,
                  "Rank of the run to read; default: the rank of each process")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("N");
}

void AddExecFlags(CLI::App& verb, ExecFlags& flags) {
  verb.add_option("COMMAND", flags.words,
                  "The command and its arguments, after --")
      ->required()
      ->type_name("COMMAND");
  verb.add_option("--run", flags.run,
                  "Name of the run; default: exec-<script>-<time>. If it "
                  "exists, the run is called NAME-2 and so on")
      ->type_name("NAME");
  AddTexts(verb, "--ops", flags.ops,
           "Patterns of the ops to record; default: all");
  verb.add_option("--level", flags.level,
                  "What to record of a script without calls to msitd: modules, "
                  "functions of torch (api), or both")
      ->check(OneOf({"module", "api", "mix"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  verb.add_option(
          "--stack", flags.stack,
          "Source location to record for each call: none, caller or full")
      ->check(OneOf({"none", "caller", "full"}))
      ->type_name("LEVEL")
      ->capture_default_str();
  verb.add_flag("--weights", flags.weights, "Also record each parameter once");
  verb.add_flag("--gradients", flags.gradients, "Also record gradients");
  verb.add_flag("--aliases", flags.aliases,
                "Store bytes that one module passes to the next only once");
  AddTexts(verb, "--map-path", flags.map_paths,
           "OLD=NEW: search files below OLD in NEW instead");
  AddTexts(verb, "--map-device", flags.map_devices,
           "OLD=NEW: use devices of type NEW instead of OLD, such as npu=cpu");
  verb.add_flag("--private", flags.is_private,
                "Start a daemon for this command only, even if another one "
                "runs, with its store in the folder msitd-NAME");
  verb.add_option("--data-dir", flags.data_dir,
                  "The same, with its store in DIR")
      ->type_name("DIR");
}

}  // namespace msitd::msitctl
