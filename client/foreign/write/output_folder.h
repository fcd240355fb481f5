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

// A file that appears either complete or not at all: it has a temporary name
// until Commit. Thread-compatible.
class OutputFile {
 public:
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  // Removes the file unless it was committed.
  ~OutputFile();

  // Appends.
  absl::Status Write(std::string_view bytes);
  // Replaces bytes that were written.
  absl::Status WriteAt(uint64_t offset, std::string_view bytes);
  // Discards the bytes from `size` on.
  absl::Status Truncate(uint64_t size);
  // Fills `out` with bytes that were written. Returns DATA_LOSS if there are
  // fewer.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out);
  uint64_t size() const { return flushed_ + buffer_.size(); }

  // Sets the modification time of the committed file, in nanoseconds since the
  // epoch. Without this call, it is the time of Commit.
  void SetTime(int64_t time_ns) { time_ns_ = time_ns; }

  // Waits until the written bytes are durable.
  absl::Status Sync();

  // Gives the file its final name. Nothing may be written afterwards. Returns
  // ALREADY_EXISTS if there is a file of this name that must not be replaced,
  // such as one that was created before by this folder.
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

// A folder to which files are written. Links in it are not followed.
// Thread-compatible.
class OutputFolder {
 public:
  // Opens or creates the folder at `path`. Returns FAILED_PRECONDITION if it
  // exists and is not empty, unless `replaces`: new files then replace those of
  // the same name, and others stay.
  static absl::StatusOr<std::unique_ptr<OutputFolder>> Open(
      const std::string& path, bool replaces);

  // Creates the folder at the relative `path`, and its parents. New folders
  // have `mode`, less the umask. Does nothing if the folder exists.
  absl::Status MakeFolder(std::string_view path, mode_t mode);

  // Creates a file. Missing folders are created with mode 0777.
  absl::StatusOr<std::unique_ptr<OutputFile>> Create(std::string_view path,
                                                     mode_t mode = 0666);

  // Returns the path without links and dots; the path passed to Open if that is
  // not known.
  std::string AbsolutePath() const;

  // The path that was passed to Open.
  const std::string& path() const { return path_; }

 private:
  OutputFolder(std::string path, bool replaces, UniqueFd root)
      : path_(std::move(path)), replaces_(replaces), root_(std::move(root)) {}

  const std::string path_;
  const bool replaces_;
  const UniqueFd root_;
  // The folder that was opened last, and hashes of the names that were created
  // in it: a file that existed before is replaced only once.
  std::string last_path_;
  UniqueFd last_;
  std::unordered_set<size_t> made_;
  uint64_t created_count_ = 0;
};

}  // namespace msitd::write
