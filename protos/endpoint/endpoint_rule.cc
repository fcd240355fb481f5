// SPDX-License-Identifier: Apache-2.0
#include "protos/endpoint/endpoint_rule.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace msitd::endpoint {
namespace {

// In the order of their precedence.
constexpr const char* kVariables[] = {"MSITD_ENDPOINT", "MSITCTL_ENDPOINT"};

// The daemon also uses names that are longer than those of the sockets.
constexpr size_t kNameBytesMax = 24;
constexpr size_t kFolderBytesMax =
    sizeof(sockaddr_un::sun_path) - 1 - kNameBytesMax;

bool IsFolderOf(uid_t uid, const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == uid;
}

Choice Named(Choice::Origin origin, std::string endpoint,
             const Surroundings& around) {
  if (endpoint == kPersonal) {
    return {Choice::Origin::kPersonal, false, PersonalSocketDir(around), ""};
  }
  return {origin, false, std::move(endpoint), ""};
}

}  // namespace

Surroundings Surroundings::OfProcess() {
  Surroundings out;
  out.variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  out.uid = ::geteuid();
  return out;
}

std::string PersonalSocketDir(const Surroundings& around) {
  const std::string folders[] = {
      around.variable("XDG_RUNTIME_DIR"),
      around.runtime_root + "/" + std::to_string(around.uid)};
  for (const std::string& folder : folders) {
    std::string path = folder + "/msitd";
    if (folder.starts_with('/') && path.size() <= kFolderBytesMax &&
        IsFolderOf(around.uid, folder)) {
      return path;
    }
  }
  return around.temporary_root + "/msitd-" + std::to_string(around.uid);
}

std::string NotAllowed(std::string_view folder) {
  return "not allowed to enter " + std::string(folder) +
         "; ask an administrator to add you to the group msitd, or use a "
         "daemon of your own: MSITD_ENDPOINT=personal";
}

Choice ChooseEndpoint(std::string_view given, const Surroundings& around) {
  using Origin = Choice::Origin;
  if (!given.empty()) {
    return Named(Origin::kGiven, std::string(given), around);
  }
  for (const char* const name : kVariables) {
    if (std::string value = around.variable(name); !value.empty()) {
      return Named(Origin::kVariable, std::move(value), around);
    }
  }
  for (const std::string_view socket : {kQuerySocket, kIngestSocket}) {
    struct stat info {};
    const std::string path = around.system_dir + "/" + std::string(socket);
    if (::stat(path.c_str(), &info) == 0) {
      return {Origin::kSystem, true, around.system_dir, ""};
    }
    if (errno == EACCES) {
      return {Origin::kNone, true, "", NotAllowed(around.system_dir)};
    }
  }
  return {Origin::kPersonal, true, PersonalSocketDir(around), ""};
}

}  // namespace msitd::endpoint
