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

// One file that is written at its end, or read. Thread-safe for reads; writes
// and Sync come from one thread.
class File {
 public:
  virtual ~File() = default;

  // Writes the concatenation of `pieces` at `offset`, all of it or an error
  // after which any part may have been written. Lengths, addresses and offset
  // are multiples of kChunkAlignment.
  virtual absl::Status Write(
      uint64_t offset, std::span<const std::span<const std::byte>> pieces) = 0;

  // Reads up to out.size() bytes; fewer only at the end of the file. The
  // offset, the size and the address are multiples of kChunkAlignment.
  virtual absl::StatusOr<uint64_t> Read(uint64_t offset,
                                        std::span<std::byte> out) = 0;

  // Returns once everything written is durable, with the metadata that reading
  // it needs.
  virtual absl::Status Sync() = 0;

  // Asks for disk room up to `bytes` without changing the size of the file. An
  // error leaves the file without room behind its end. UNIMPLEMENTED if the
  // file system cannot.
  virtual absl::Status Preallocate(uint64_t bytes) = 0;
  virtual absl::Status Truncate(uint64_t bytes) = 0;
  virtual absl::StatusOr<uint64_t> Size() = 0;

  // Gives the room of a range back; it reads as zeros from then on. Both
  // numbers are multiples of kChunkAlignment. UNIMPLEMENTED if the file system
  // cannot.
  virtual absl::Status PunchHole(uint64_t offset, uint64_t bytes) = 0;
  // Bytes of disk that the file takes, room asked for ahead included.
  virtual absl::StatusOr<uint64_t> AllocatedBytes() = 0;
};

// Files, directories and the clocks: what tests replace to make a disk fail.
// Thread-safe.
class Env {
 public:
  virtual ~Env() = default;

  // The real one; lives as long as the process.
  static Env& Posix();
  // The same, but nothing is made durable: for a store that goes with the
  // program that made it.
  static Env& Fleeting();

  // False if Sync and whatever else promises durability returns at once. Then
  // the index needs no sync either.
  virtual bool is_durable() { return true; }

  // Makes a new file and makes its name durable. `direct`: O_DIRECT if the
  // file system takes it, buffered otherwise.
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path,
                                                       bool direct) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForRead(
      const std::string& path, bool direct) = 0;
  virtual absl::StatusOr<std::unique_ptr<File>> OpenForWrite(
      const std::string& path, bool direct) = 0;

  // Makes a directory, or finds it there; its name is durable on return.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;
  // Makes the names of the files in the directory durable.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // The file system that holds `path`: the bytes that this process may still
  // take, and the bytes that it has in all.
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> CapacityBytes(const std::string& path) = 0;

  // Called before the database of the index opens, writes, syncs, renames or
  // removes one of its files. If this returns an error, the operation fails
  // with it.
  virtual absl::Status AdmitIndexOperation() { return absl::OkStatus(); }

  // Nanoseconds since the Unix epoch by the wall clock, which can be set.
  virtual int64_t NowNs() = 0;
  // Nanoseconds since the machine was started, sleep included. Nobody can set
  // this clock.
  virtual int64_t BootNs() = 0;
  // Identifies this start of the machine; another one after the next. Empty if
  // it is not known.
  virtual std::string BootId() = 0;
};

}  // namespace msitd::storage
