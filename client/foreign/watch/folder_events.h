// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::watch {

// An event for a name in a folder.
struct FolderEvent {
  enum class Kind : uint8_t {
    kWritten,     // A file was created; its writer may still have it open.
    kClosed,      // A writer closed it, or it was moved here.
    kGone,        // It was removed or moved away.
    kFolder,      // A folder was created or moved here.
    kFolderGone,  // A folder was removed or moved away.
    kUnwatched,   // The folder itself is no longer watched. No name.
    kLost,        // Events were lost, of any folder. No folder, no name.
  };

  Kind kind = Kind::kLost;
  // Relative to the root of the watch.
  std::string folder;
  std::string name;
};

// Reports changes in folders. Paths are relative to one root, which is "".
class FolderEvents {
 public:
  virtual ~FolderEvents() = default;

  // Starts watching the direct contents of `folder`, if it is not watched.
  // Returns RESOURCE_EXHAUSTED if the system has no watch left, or NOT_FOUND.
  virtual absl::Status Add(const std::string& folder) = 0;

  // Stops watching the folder and all folders below it.
  virtual void Remove(const std::string& folder) = 0;

  // Waits for events, for at most `limit`, and appends them.
  virtual absl::Status Wait(std::chrono::milliseconds limit,
                            std::vector<FolderEvent>* out) = 0;
};

// Uses inotify. Thread-compatible.
class InotifyEvents final : public FolderEvents {
 public:
  static absl::StatusOr<std::unique_ptr<InotifyEvents>> Open(
      const std::string& root);

  absl::Status Add(const std::string& folder) override;
  void Remove(const std::string& folder) override;
  absl::Status Wait(std::chrono::milliseconds limit,
                    std::vector<FolderEvent>* out) override;

 private:
  InotifyEvents(std::string root, UniqueFd queue)
      : root_(std::move(root)), queue_(std::move(queue)) {}

  void Forget(int watch);

  const std::string root_;
  const UniqueFd queue_;
  std::map<int, std::string> folders_;
  std::map<std::string, int> watches_;
};

}  // namespace msitd::watch
