// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/web/browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "protos/os/thread.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

extern char** environ;

namespace msitd::msitctl {
namespace {

constexpr char kOpener[] = "xdg-open";
constexpr std::string_view kSuffix = ".html";

// The folder of the user for files of running programs, if there is one.
std::string Folder() {
  for (const char* const name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* const folder = std::getenv(name);
    if (folder != nullptr && *folder == '/') return folder;
  }
  return "/tmp";
}

absl::Status StartOpener(std::string path) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  std::string name = kOpener;
  char* const words[] = {name.data(), path.data(), nullptr};
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, kOpener, &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoStatus(error, kOpener);
  // Some browsers stay the child of the opener, which then does not end.
  auto waiter =
      StartSpareThread("xdg-open", [child] { waitpid(child, nullptr, 0); });
  if (waiter.joinable()) waiter.detach();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BrowserPage> BrowserPage::Open(const std::string& url) {
  std::string path = Folder() + "/msitctl-web-XXXXXX" + std::string(kSuffix);
  // Only the user can read the file.
  const UniqueFd file(
      mkostemps(path.data(), static_cast<int>(kSuffix.size()), O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, path);
  BrowserPage page(path);
  const std::string text = fmt::format(
      "<!doctype html><meta charset=\"utf-8\"><title>msitctl web</title>"
      "<meta http-equiv=\"refresh\" content=\"0;url={0}\">"
      "<a href=\"{0}\">Open the page</a>\n",
      url);
  if (::write(file.get(), text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, path);
  }
  MSITD_RETURN_IF_ERROR(StartOpener(path));
  return page;
}

BrowserPage::BrowserPage(BrowserPage&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

BrowserPage::~BrowserPage() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace msitd::msitctl
