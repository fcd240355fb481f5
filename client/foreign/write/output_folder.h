// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::write {

// A file that appears whole or not at all: what is written has another name
// until Commit. Thread-compatible.
class OutputFile {
 public:
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Removes what was written, unless committed.
  ~OutputFile();

  // Appends.
  absl::Status Write(std::string_view bytes);
  // Replaces bytes that were written.
  absl::Status WriteAt(uint64_t offset, std::string_view bytes);
  // Forgets what was written from `size` on.
  absl::Status Truncate(uint64_t size);
  // Fills `out` with bytes that were written. DATA_LOSS if they end before.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out);
  uint64_t size() const { return flushed_ + buffer_.size(); }

  // Sets the time of change that the file has once it appears, in nanoseconds
  // since the epoch; without this, it is that of Commit.
  void SetTime(int64_t time_ns) { time_ns_ = time_ns; }

  // Waits until what was written would outlive the machine.
  absl::Status Sync();

  // Makes the file appear. Nothing may be written afterwards. ALREADY_EXISTS
  // if there is a file of this name that must not be replaced, such as one that
  // was made before.
  absl::Status Commit();

 private:
  friend class OutputFolder;
  OutputFile(std::string path, int folder, std::string name,
             std::string partial, bool replaces, UniqueFd fd);

  absl::Status Flush();
  absl::Status Rename();

  const std::string path_;  // For errors.
  const UniqueFd folder_;
  const std::string name_;
  const std::string partial_;
  const bool replaces_;
  UniqueFd fd_;
  std::string buffer_;
  uint64_t flushed_ = 0;
  std::optional<int64_t> time_ns_;
};

// A folder that is filled. Links in it are not followed. Thread-compatible.
class OutputFolder {
 public:
  // Takes the folder at `path`, or makes it. FAILED_PRECONDITION if it is there
  // and not empty, unless `replaces`: then files that are made replace those of
  // the same name, and others stay.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Open(
      const std::string& path, bool replaces);

  // Makes a folder, `path` being relative, and those above it; `mode` is
  // that of all that are new, less the umask. Nothing if it is there.
  absl::Status MakeFolder(std::string_view path, mode_t mode);

  // Begins a file. Folders that lack are made with mode 0777.
  absl::StatusOr<std::unique_ptr<OutputFile>> Create(std::string_view path,
                                                     mode_t mode = 0666);

  // Without links and dots; as it was given to Open where that is not known.
  std::string AbsolutePath() const;

  // As it was given to Open.
  const std::string& path() const { return path_; }

 private:
  OutputFolder(std::string path, bool replaces, UniqueFd root)
      : path_(std::move(path)), replaces_(replaces), root_(std::move(root)) {}

  const std::string path_;
  const bool replaces_;
  const UniqueFd root_;
  // The folder that was opened last, and hashes of the names that were made in
  // it: a file that was there is replaced once.
  std::string last_path_;
  UniqueFd last_;
  std::unordered_set<size_t> made_;
  uint64_t created_count_ = 0;
};

}  // namespace msitd::write
