// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/personal.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "protos/endpoint/endpoint_rule.h"
#include "protos/status/status.h"

namespace msitd::config {
namespace {

constexpr char kAdministratorFile[] = "/etc/msitd/personal.toml";

// After this time without streams, jobs and connections, the daemon ends.
constexpr int64_t kIdleExitS = 600;
// The store shares a disk, or a quota, with the other files of the user.
constexpr int64_t kDiskBytes = int64_t{20} << 30;
constexpr int64_t kAgeS = int64_t{30} * 24 * 3600;

// Returns "" unless the variable has an absolute path; the XDG specification
// says to ignore others.
std::string PathIn(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

std::string Home() {
  std::string home = PathIn("HOME");
  if (!home.empty()) return home;
  const passwd* const user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

// Returns the folder of a variable, or its default in `home`; "" if there is
// neither.
std::string FolderOf(const char* variable, const std::string& home,
                     std::string_view by_default) {
  std::string folder = PathIn(variable);
  if (!folder.empty()) return folder;
  return home.empty() ? "" : fmt::format("{}/{}", home, by_default);
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

absl::StatusOr<PersonalFiles> FindPersonalFiles() {
  const std::string home = Home();
  const std::string usable_home = IsFolder(home) ? home : "";
  const std::string state =
      FolderOf("XDG_STATE_HOME", usable_home, ".local/state");
  if (state.empty()) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "there is no home folder{}{} for the store; set "
                      "XDG_STATE_HOME to a folder on a disk with space",
                      home.empty() ? "" : " ", home);
  }
  PersonalFiles out;
  out.state_dir = state + "/msitd";
  out.config_files = {kAdministratorFile};
  const std::string config =
      FolderOf("XDG_CONFIG_HOME", usable_home, ".config");
  if (!config.empty()) {
    out.config_files.push_back(config + "/msitd/msitd.toml");
  }
  return out;
}

void SetPersonalDefaults(const PersonalFiles& files, DaemonConfig& config) {
  config.data_dir = files.store();
  config.socket_dir =
      endpoint::PersonalSocketDir(endpoint::Surroundings::OfProcess());
  config.retain_disk_bytes = kDiskBytes;
  config.retain_age_s = kAgeS;
  config.idle_exit_s = kIdleExitS;
}

std::string DefaultSocketDir() {
  const endpoint::Surroundings around = endpoint::Surroundings::OfProcess();
  const std::string& system = around.system_dir;
  if (around.uid == 0 || ::access(system.c_str(), W_OK) == 0) return system;
  return endpoint::PersonalSocketDir(around);
}

}  // namespace msitd::config
