// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/second_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "client/ask/query/exit_code.h"
#include "client/msitctl/compare/compare_flags.h"
#include "client/msitctl/compare/run.h"
#include "client/msitctl/exec/exec_messages.h"

namespace msitd::msitctl {
namespace {

constexpr std::string_view kTwice = "twice";
constexpr std::string_view kCompiled = "compiled";

bool IsCompiled(std::string_view second) {
  return second == kCompiled ||
         second.starts_with(fmt::format("{}:", kCompiled));
}

// Returns the text for an unknown variation, and nothing for a known one.
std::string CheckVariation(const std::string& text) {
  if (text == kCompiled || text == "eager" || text == "float64" ||
      text == "cpu") {
    return "";
  }
  const bool has_backend =
      IsCompiled(text) && text.size() > kCompiled.size() + 1;
  return has_backend ? ""
                     : fmt::format(
                           "\"{}\" is not compiled, compiled:BACKEND, eager, "
                           "float64 or "
                           "cpu",
                           text);
}

// Returns the name of the second run: `bf16-compiled`.
std::string SecondRunOf(const std::string& run, std::string_view second) {
  if (second == kTwice) return run + "-again";
  return fmt::format("{}-{}", run, second.substr(0, second.find(':')));
}

// Returns the flags that compare the `first` run with the `second` one.
CompareFlags FlagsFor(const std::string& first, const std::string& second,
                      std::string_view variation) {
  CompareFlags flags;
  flags.golden = first;
  flags.target = second;
  if (variation == kTwice) {
    flags.policy.preset = "bitwise";
    return flags;
  }
  // The usual way to compute is trusted more than a compiled one, and less than
  // the other variations.
  if (!IsCompiled(variation)) std::swap(flags.golden, flags.target);
  if (IsCompiled(variation) || variation == "eager") {
    // Beside a compiled model, no other one is recorded.
    flags.selection.ops = {"root", "root.*"};
  }
  return flags;
}

// Returns the worse of two outcomes: an error, then a failure of the policy,
// then a partial answer.
ask::Outcome Worse(const ask::Outcome& a, const ask::Outcome& b) {
  const auto badness = [](const ask::Outcome& outcome) {
    switch (outcome.exit_code) {
      case ask::kExitOk:
        return 0;
      case ask::kExitPartial:
        return 1;
      case ask::kExitPolicyFailed:
        return 2;
      default:
        return 3;
    }
  };
  return badness(b) > badness(a) ? b : a;
}

ask::Outcome CompareEach(Invocation& invocation, std::string_view variation,
                         const std::vector<std::string>& first,
                         const std::vector<std::string>& second) {
  if (first.size() != second.size()) {
    return ExecFailure(fmt::format(
        "the command recorded {} runs, and {} the second time, so that they "
        "cannot be paired; compare them with msitctl compare run",
        first.size(), second.size()));
  }
  ask::Outcome outcome;
  for (size_t i = 0; i < first.size(); ++i) {
    if (i > 0) invocation.out().Write("\n");
    outcome = Worse(
        outcome,
        RunComparison(invocation, FlagsFor(first[i], second[i], variation)));
    if (outcome.exit_code == ask::kExitInterrupted) break;
  }
  return outcome;
}

// Returns the outcome if a command failed or recorded nothing.
ask::Outcome WhyNotCompared(const RecordedCommand& recorded,
                            std::string_view which) {
  if (recorded.exit_code != 0) {
    return {recorded.exit_code,
            fmt::format("the command exited with {} {}, so that nothing is "
                        "compared",
                        recorded.exit_code, which)};
  }
  const std::string_view what =
      recorded.runs.empty() ? "nothing was recorded"
      : recorded.has_failed ? "not everything was recorded"
      : recorded.is_varied  ? ""
                            : "the model was not changed";
  if (!what.empty()) {
    return ExecFailure(
        fmt::format("{} {}, so that nothing is compared", what, which));
  }
  return {};
}

}  // namespace

void AddSecondRunFlags(CLI::App& verb, std::string& second) {
  CLI::Option* const twice = verb.add_flag_callback(
      "--twice", [&second] { second = kTwice; },
      "Run the command again, and compare the runs bit by bit: what is not "
      "deterministic? Also records weights and gradients");
  CLI::Option* const against =
      verb.add_option("--against", second,
                      "Run the command again, and compare the runs: with its "
                      "model compiled by torch (compiled:BACKEND for another "
                      "backend than inductor), eager without the compiler that "
                      "it uses, in float64, or on the cpu. Also records "
                      "weights and gradients")
          ->check(CLI::Validator(CheckVariation, ""))
          ->type_name("WHAT");
  twice->excludes(against);
}

ask::Outcome RunAgain(Invocation& invocation, const ExecFlags& flags,
                      const std::string& run, const RecordedCommand& first,
                      ExecDaemon& daemon) {
  MSITCTL_RETURN_IF_FAILED(WhyNotCompared(first, "the first time"));
  RecordedCommand second;
  MSITCTL_RETURN_IF_FAILED(
      RunRecorded(invocation, flags, SecondRunOf(run, flags.second),
                  flags.second == kTwice ? "" : flags.second, daemon, second));
  MSITCTL_RETURN_IF_FAILED(WhyNotCompared(
      second, flags.second == kTwice
                  ? "the second time"
                  : fmt::format("with --against {}", flags.second)));
  return CompareEach(*daemon.connection, flags.second, first.runs, second.runs);
}

}  // namespace msitd::msitctl
