// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/flag/plugin_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "client/ask/query/endpoint.h"
#include "client/msitctl/flag/one_of.h"
#include "client/msitctl/flag/selection.h"
#include "client/msitctl/flag/whole_number.h"
#include "protos/base/report_column.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

bool IsMetricName(std::string_view name) {
  constexpr size_t kNameBytesMax = 64;
  return !name.empty() && name.size() <= kNameBytesMax &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
             ".-") == std::string_view::npos;
}

// Two columns of a report with the same heading could not be distinguished.
absl::Status CheckMetricName(const std::string& name,
                             std::span<const std::string> taken) {
  std::string_view problem;
  if (!IsMetricName(name)) {
    problem = "not a name of a metric: use 1 to 64 letters, digits, _, . and -";
  } else if (IsReportColumn(name)) {
    problem = "a column of reports, and cannot be the name of a metric";
  } else if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    problem = "a metric that the daemon measures itself";
  }
  if (problem.empty()) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kInvalidArgument, "\"{}\" is {}", name,
                    problem);
}

ask::Outcome SpecsOf(const PluginFlags& flags,
                     std::span<const std::string> taken,
                     std::vector<ask::PluginSpec>& specs) {
  if (flags.plugins.size() > kPluginsMax) {
    return ask::UsageError(fmt::format("{} plug-ins; the maximum is {}",
                                       flags.plugins.size(), kPluginsMax));
  }
  if (!flags.names.empty() && flags.names.size() != flags.plugins.size()) {
    return ask::UsageError(fmt::format(
        "{} names for {} plug-ins", flags.names.size(), flags.plugins.size()));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < flags.plugins.size(); ++i) {
    ask::PluginSpec& spec = specs.emplace_back();
    MSITCTL_ASSIGN_OR_USAGE(spec, ask::ParsePlugin(flags.plugins[i]));
    if (!flags.names.empty()) spec.metric = flags.names[i];
    if (const absl::Status status = CheckMetricName(spec.metric, taken);
        !status.ok()) {
      return ask::UsageError(Message(status));
    }
    if (!names.insert(spec.metric).second) {
      return ask::UsageError(
          fmt::format("two metrics would be called {}; name each with --name",
                      spec.metric));
    }
    if (access(spec.file.c_str(), R_OK) != 0) {
      return ask::UsageError(
          fmt::format("--plugin: {}", Message(ErrnoStatus(errno, spec.file))));
    }
  }
  return {};
}

}  // namespace

void AddPluginFlags(CLI::App& verb, const std::string& name_flag,
                    PluginFlags& flags) {
  AddTexts(verb, "--plugin", flags.plugins,
           "Function in a Python file that takes two arrays, golden and "
           "target, and returns a value, or a value and a text; repeatable")
      ->type_name("FILE.py:FUNCTION");
  AddTexts(verb, name_flag, flags.names,
           "Name of the metric, for each --plugin in order; default: the name "
           "of the function")
      ->type_name("NAME");
  verb.add_option("--python", flags.python,
                  "Interpreter for plug-ins, with numpy; default python3")
      ->type_name("PROGRAM");
  verb.add_option("--plugin-arrays", flags.arrays,
                  "Type of the arrays that plug-ins receive: numpy or torch; "
                  "default numpy")
      ->check(OneOf({"numpy", "torch"}))
      ->type_name("KIND");
  verb.add_option("--plugin-timeout", flags.timeout,
                  "Time limit for one pair in a plug-in, after which its "
                  "interpreter is restarted; default 60s")
      ->type_name("TIME");
  verb.add_option("--plugin-size-max", flags.pair_bytes_max,
                  "Do not pass pairs with more bytes to plug-ins; default 1GB "
                  "(1 KB is 1024 bytes)")
      ->transform(SizeValue())
      ->type_name("SIZE");
}

ask::Outcome StartPlugins(const PluginFlags& flags,
                          std::span<const std::string> taken,
                          ask::Interrupts& interrupts,
                          std::vector<std::unique_ptr<ask::Plugin>>& plugins) {
  std::vector<ask::PluginSpec> specs;
  MSITCTL_RETURN_IF_FAILED(SpecsOf(flags, taken, specs));
  ask::InterpreterOptions options;
  options.python = flags.python;
  options.arrays = flags.arrays;
  if (!flags.timeout.empty()) {
    const auto limit = ask::ParseDuration(flags.timeout);
    if (!limit.ok()) {
      return ask::UsageError(
          fmt::format("--plugin-timeout: {}", Message(limit.status())));
    }
    options.call_limit = *limit;
  }
  const ask::Interrupts::Hold hold(interrupts);
  for (const ask::PluginSpec& spec : specs) {
    options.file = spec.file;
    options.function = spec.function;
    MSITCTL_RETURN_IF_FAILED(
        ask::Plugin::Create(spec, options, interrupts, plugins.emplace_back()));
  }
  return {};
}

}  // namespace msitd::msitctl
