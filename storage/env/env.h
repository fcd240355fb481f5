// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace msitd::storage {

// A file that is read, or written at its end. Reads are thread-safe; writes and
// Sync must be called from one thread.
class File {
 public:
  virtual ~File() = default;

  // Writes the concatenation of `pieces` at `offset`. After an error, any part
  // may have been written. Lengths, addresses and offset must be multiples of
  // kChunkAlignment.
  virtual absl::Status Write(
      uint64_t offset, std::span<const std::span<const std::byte>> pieces) = 0;

  // Reads up to out.size() bytes; fewer only at the end of the file. The
  // offset, the size and the address must be multiples of kChunkAlignment.
  virtual absl::StatusOr<uint64_t> Read(uint64_t offset,
                                        std::span<std::byte> out) = 0;

  // Returns when everything written is durable, including the metadata that
  // reading it requires.
  virtual absl::Status Sync() = 0;

  // Reserves disk space up to `bytes` without changing the size of the file.
  // After an error, no space is reserved past the end of the file.
  // UNIMPLEMENTED if the file system does not support it.
  virtual absl::Status Preallocate(uint64_t bytes) = 0;
  virtual absl::Status Truncate(uint64_t bytes) = 0;
  virtual absl::StatusOr<uint64_t> Size() = 0;

  // Frees the disk space of a range, which then reads as zeros. Both numbers
  // must be multiples of kChunkAlignment. UNIMPLEMENTED if the file system does
  // not support it.
  virtual absl::Status PunchHole(uint64_t offset, uint64_t bytes) = 0;
  // Returns the bytes of disk that the file occupies, including reserved space.
  virtual absl::StatusOr<uint64_t> AllocatedBytes() = 0;
};

// Files, directories and clocks. Tests replace it to make a disk fail.
// Thread-safe.
class Env {
 public:
  virtual ~Env() = default;

  // Returns the real environment, which lives as long as the process.
  static Env& Posix();
  // As Posix, but nothing is made durable. For a store that is deleted with the
  // program that created it.
  static Env& Fleeting();

  // False if Sync and all other durability functions return immediately. The
  // index then need not sync either.
  virtual bool is_durable() { return true; }

  // Creates a new file and makes its name durable. `direct`: use O_DIRECT if
  // the file system supports it, otherwise buffered I/O.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path,
                                                       bool direct) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForRead(
      const std::string& path, bool direct) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForWrite(
      const std::string& path, bool direct) = 0;

  // Creates a directory, or accepts an existing one; its name is durable on
  // return.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;
  // Makes the names of the files in the directory durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Properties of the file system of `path`: the bytes that this process may
  // still use, and its total size.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> CapacityBytes(const std::string& path) = 0;

  // Called before the database of the index opens, writes, syncs, renames or
  // removes one of its files. If this returns an error, the operation fails
  // with it.
  virtual absl::Status AdmitIndexOperation() { return absl::OkStatus(); }

  // Returns the wall clock, which can be set, in nanoseconds since the Unix
  // epoch.
  virtual int64_t NowNs() = 0;
  // Returns the time since the machine was started, including sleep, in
  // nanoseconds. This clock cannot be set.
  virtual int64_t BootNs() = 0;
  // Identifies this boot of the machine; changes with every boot. Empty if
  // unknown.
  virtual std::string BootId() = 0;
};

}  // namespace msitd::storage
