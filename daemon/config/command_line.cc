// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>

#include "protos/status/status.h"

namespace msitd::config {
namespace {

struct Flags {
  std::string config_file;
  bool print_config = false;
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

absl::Status ApplyFile(const std::string& path, DaemonConfig& config) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.fail()) {
    return ErrnoStatus(errno == 0 ? EIO : errno, "read " + path);
  }
  return ApplyToml(text.str(), path, config);
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
  if (flags.personal) MSITD_RETURN_IF_ERROR(ApplyPersonal(out));
  MSITD_RETURN_IF_ERROR(Apply(flags, out.config));
  out.recovers = flags.recovers;
  if (flags.print_config) out.text = ToToml(out.config);
  return out;
}

}  // namespace msitd::config
