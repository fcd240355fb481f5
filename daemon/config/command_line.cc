// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>

#include "daemon/config/problems.h"
#include "protos/status/status.h"

namespace msitd::config {
namespace {

struct Flags {
  std::string config_file;
  bool print_config = false;
  bool checks_config = false;
  bool recovers = false;
  bool personal = false;
  std::map<std::string_view, std::vector<std::string>> values;
};

std::string FlagOf(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", fmt::format("msitd {}", Version()));
  app.add_option("--config", flags.config_file,
                 "TOML file with the keys below, with '_' instead of '-'. "
                 "Flags override it")
      ->option_text("FILE");
  app.add_flag("--print-config", flags.print_config,
               "Print the configuration as TOML and exit");
  app.add_flag("--check-config", flags.checks_config,
               "Check the configuration, and the files, directories, groups "
               "and environment variables that it needs. Prints every problem "
               "with its place, starts nothing, and exits with 0 only if there "
               "is none");
  app.add_flag("--recover", flags.recovers,
               "Open a store with a damaged index read-only, without changes "
               "to the data directory. A temporary index is built in $TMPDIR "
               "or /tmp from the segments and the rest of the old index. To "
               "repair the store, run msitd-inspect rebuild");
  app.add_flag("--personal", flags.personal,
               "Start a daemon for this user in the background, unless one "
               "runs, and print its endpoint. Clients do this by themselves. "
               "The store is in $XDG_STATE_HOME/msitd or ~/.local/state/msitd. "
               "~/.config/msitd/msitd.toml may have keys");
  for (const KeyHelp& key : Keys()) {
    app.add_option(FlagOf(key.key), flags.values[key.key],
                   std::string(key.help))
        ->option_text(key.is_list ? "VALUE ..." : "VALUE")
        ->expected(1)
        ->take_all();
  }
}

absl::StatusOr<std::string> ReadConfigFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  // An empty file sets only the flag. A directory can be opened, but not read.
  if (!file.is_open() || file.bad() || text.bad() ||
      (text.fail() && errno != 0)) {
    return ErrnoStatus(errno == 0 ? EIO : errno, "read " + path);
  }
  return text.str();
}

absl::Status ApplyFile(const std::string& path, DaemonConfig& config) {
  MSITD_ASSIGN_OR_RETURN(const std::string text, ReadConfigFile(path));
  return ApplyToml(text, path, config);
}

absl::Status ApplyPersonal(CommandLine& out) {
  MSITD_ASSIGN_OR_RETURN(out.personal, FindPersonalFiles());
  SetPersonalDefaults(*out.personal, out.config);
  for (const std::string& file : out.personal->config_files) {
    const absl::Status status = ApplyFile(file, out.config);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  return absl::OkStatus();
}

absl::Status Apply(const Flags& flags, DaemonConfig& config) {
  if (!flags.config_file.empty()) {
    MSITD_RETURN_IF_ERROR(ApplyFile(flags.config_file, config));
  }
  for (const auto& [key, values] : flags.values) {
    if (values.empty()) continue;
    MSITD_RETURN_IF_ERROR(ApplyFlag(key, values, config));
  }
  return Validate(config);
}

// Finds all problems of a configuration, with their places.
class ConfigCheck {
 public:
  // Applies the flags and files of `out`, and returns what to print. Any
  // problem is INVALID_ARGUMENT with one line for each.
  absl::StatusOr<std::string> Run(const Flags& flags, CommandLine& out) {
    if (flags.personal) AddFiles(out);
    if (!flags.config_file.empty()) {
      AddFile(flags.config_file, /*is_optional=*/false, out.config);
    }
    for (const auto& [key, values] : flags.values) {
      if (values.empty()) continue;
      places_.insert_or_assign(std::string(key), FlagOf(key));
      AddLines(ApplyFlag(key, values, out.config));
    }
    for (const auto& problem : FindProblems(out.config)) Add(problem);
    for (const auto& problem : FindSystemProblems(out.config)) Add(problem);
    if (problems_.empty()) return "the configuration is valid\n";
    return absl::InvalidArgumentError(
        fmt::format("{}", fmt::join(problems_, "\n")));
  }

 private:
  void AddFiles(CommandLine& out) {
    auto files = FindPersonalFiles();
    if (!files.ok()) return AddLines(files.status());
    SetPersonalDefaults(*files, out.config);
    for (const std::string& file : files->config_files) {
      AddFile(file, /*is_optional=*/true, out.config);
    }
  }

  void AddFile(const std::string& path, bool is_optional,
               DaemonConfig& config) {
    const auto text = ReadConfigFile(path);
    if (is_optional && absl::IsNotFound(text.status())) return;
    if (!text.ok()) return AddLines(text.status());
    for (auto& [key, place] : TomlPositions(*text, path)) {
      places_.insert_or_assign(key, place);
    }
    AddLines(ApplyToml(*text, path, config));
  }

  void AddLines(const absl::Status& status) {
    if (!status.ok()) problems_.emplace_back(Message(status));
  }

  void Add(const KeyProblem& problem) {
    const auto place = places_.find(problem.key);
    if (place == places_.end()) {
      problems_.push_back(
          fmt::format("{} (default): {}", problem.key, problem.text));
    } else if (place->second.starts_with("--")) {
      problems_.push_back(fmt::format("{}: {}", place->second, problem.text));
    } else {
      problems_.push_back(
          fmt::format("{}: {}: {}", place->second, problem.key, problem.text));
    }
  }

  // `file:line:column` or the flag that set a key.
  std::map<std::string, std::string, std::less<>> places_;
  std::vector<std::string> problems_;
};

}  // namespace

std::string_view Version() { return MSITD_VERSION; }

absl::StatusOr<CommandLine> ParseCommandLine(int argc,
                                             const char* const* argv) {
  CLI::App app(
      "Stores the tensors that ranks of a job send to it, and compares runs.",
      "msitd");
  Flags flags;
  AddFlags(app, flags);
  CommandLine out;
  out.config.socket_dir = DefaultSocketDir();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out.text = app.help();
    return out;
  } catch (const CLI::CallForVersion&) {
    out.text = fmt::format("msitd {}\n", Version());
    return out;
  } catch (const CLI::ParseError& error) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{}; see msitd --help", error.what());
  }
  if (flags.checks_config) {
    MSITD_ASSIGN_OR_RETURN(out.text, ConfigCheck().Run(flags, out));
    return out;
  }
  if (flags.personal) MSITD_RETURN_IF_ERROR(ApplyPersonal(out));
  MSITD_RETURN_IF_ERROR(Apply(flags, out.config));
  out.recovers = flags.recovers;
  if (flags.print_config) out.text = ToToml(out.config);
  return out;
}

}  // namespace msitd::config
