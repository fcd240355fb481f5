// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_command.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>

#include "client/msitctl/command_line.h"
#include "client/msitctl/exec/exec_daemon.h"
#include "client/msitctl/exec/exec_messages.h"
#include "client/msitctl/exec/recorded_command.h"
#include "client/msitctl/exec/second_run.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "protos/base/limits.h"
#include "protos/base/utf8.h"

namespace msitd::msitctl {
namespace {

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

ask::Outcome CheckFlags(const ExecFlags& flags, const std::string& run) {
  for (const auto* pairs : {&flags.map_paths, &flags.map_devices}) {
    for (const std::string& pair : *pairs) {
      if (!IsPair(pair)) {
        return ExecFailure(fmt::format("\"{}\" is not OLD=NEW", pair));
      }
    }
  }
  // A process could only report that its models are not recorded.
  if (run.size() > kRunNameBytesMax || !IsValidUtf8(run)) {
    return ExecFailure(fmt::format(
        "the name of the run has {} bytes; it must have 1 to {} bytes of UTF-8",
        run.size(), kRunNameBytesMax));
  }
  return {};
}

}  // namespace

ask::Outcome Exec(Invocation& invocation, const ExecFlags& flags,
                  const AfterExec& then) {
  const std::string run =
      flags.run.empty() ? DefaultRun(flags.words) : flags.run;
  MSITCTL_RETURN_IF_FAILED(CheckFlags(flags, run));
  ExecDaemon daemon;
  MSITCTL_RETURN_IF_FAILED(FindExecDaemon(invocation, flags, run, daemon));
  RecordedCommand recorded;
  MSITCTL_RETURN_IF_FAILED(RunRecorded(invocation, flags, run,
                                       /*variation=*/"", daemon, recorded));
  ask::Outcome outcome = {recorded.exit_code, ""};
  if (!flags.second.empty()) {
    outcome = RunAgain(invocation, flags, run, recorded, daemon);
  } else if (then != nullptr && !recorded.runs.empty()) {
    outcome = then(*daemon.connection, recorded.runs, recorded.exit_code);
  }
  if (daemon.daemon != nullptr && !recorded.runs.empty()) {
    ExecNote(
        fmt::format("the daemon stops; to start it again: msitd --data-dir {}",
                    daemon.store));
  }
  return outcome;
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
           "msitctl exec --twice -- python train.py\n"
           "msitctl exec --against compiled -- python generate.py\n"
           "msitctl exec --map-path /data=/mnt/data --map-device npu=cpu -- "
           "python dump_with_msprobe.py",
       .rpcs = "RunService.ListRuns, RunService.SealRun, "
               "IngestService.WriteChunks, RunService.GetRun, "
               "ComparisonService.CreateComparison, "
               "ComparisonService.GetComparison, "
               "ComparisonService.ListComparisonRows, "
               "ComparisonService.CancelComparison"},
      [flags](Invocation& invocation) {
        if (!flags->second.empty()) {
          // The first difference may be in one of them.
          flags->weights = flags->gradients = true;
        }
        return Exec(invocation, *flags, nullptr);
      });
  AddExecFlags(verb, *flags);
  AddSecondRunFlags(verb, flags->second);
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

}  // namespace msitd::msitctl
