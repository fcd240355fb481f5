// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/exec_site.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// Creates a file that shows exec that a Python process was started.
constexpr char kSiteCustomize[] = R"py(
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))

def _begin():
    with open(os.path.join(_here, "used"), "a"):
        pass
    try:
        from msitd._exec import begin
    except ImportError as error:
        if not os.path.exists(os.path.join(_here, "no_package")):
            with open(os.path.join(_here, "no_package"), "w"):
                pass
            sys.stderr.write(
                "msitctl exec: %s has no package msitd, so nothing is "
                "recorded: %s\n" % (sys.executable, error)
            )
    else:
        begin()

def _run_hidden():
    rest = [path for path in sys.path if os.path.abspath(path or ".") != _here]
    sys.path[:] = rest
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if mine is not None:
            sys.modules["sitecustomize"] = mine

_begin()
_run_hidden()
)py";

}  // namespace

absl::StatusOr<ExecSite> ExecSite::Make() {
  std::error_code error;
  std::string folder =
      (std::filesystem::temp_directory_path(error) / "msitd-exec-XXXXXX")
          .string();
  if (error || ::mkdtemp(folder.data()) == nullptr) {
    return ErrnoStatus(errno, "make a temporary folder");
  }
  ExecSite out(folder);
  std::ofstream file(folder + "/sitecustomize.py");
  file << kSiteCustomize;
  file.close();
  if (!file) return ErrnoStatus(errno, "write in " + folder);
  return out;
}

ExecSite::ExecSite(ExecSite&& other) noexcept
    : folder_(std::exchange(other.folder_, "")) {}

ExecSite::~ExecSite() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

bool ExecSite::WasUsed() const {
  return std::filesystem::exists(folder_ + "/used");
}

bool ExecSite::WasVaried() const {
  return std::filesystem::exists(folder_ + "/varied");
}

std::vector<std::string> ExecSite::Runs() const {
  std::vector<std::string> out;
  std::ifstream file(folder_ + "/runs");
  // Each rank reports its run.
  for (std::string run; std::getline(file, run, '\0');) {
    if (std::find(out.begin(), out.end(), run) == out.end()) out.push_back(run);
  }
  return out;
}

bool ExecSite::HasFailed() const {
  return std::filesystem::exists(folder_ + "/failed") ||
         std::filesystem::exists(folder_ + "/no_package");
}

}  // namespace msitd::msitctl
