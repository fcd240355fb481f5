// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/index_file_system.h"

#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// The ballast may be reserved again between its release and the write.
constexpr int kAttemptsMax = 3;

// A table without entries is smaller than this. If a compaction makes such a
// table and cannot write it, RocksDB 7.8 aborts on an assertion about the
// table's keys, although it would remove the table at once. So a failed write
// of such a table is reported as a success, and the error is returned when
// RocksDB opens the table to verify it.
constexpr uint64_t kEmptyTableBytesMax = uint64_t{64} << 10;

constexpr std::string_view kTableSuffix = ".sst";

// True while this thread runs a compaction; a single thread executes a whole
// compaction. The I/O priority of a file cannot be used to detect this: while
// writes are slowed down, a compaction has the priority of a flush.
//
// Aligned like the sections that follow it: mold 1.10 puts one byte into the
// page before them, and a program for which that page is not mapped does not
// start.
alignas(64) thread_local bool compacts = false;

class CompactionListener final : public rocksdb::EventListener {
 public:
  void OnCompactionBegin(rocksdb::DB* /*db*/,
                         const rocksdb::CompactionJobInfo& /*job*/) override {
    compacts = true;
  }
  void OnCompactionCompleted(
      rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& /*job*/) override {
    compacts = false;
  }
  // RocksDB does not announce the end of a compaction while it closes.
  void OnFlushBegin(rocksdb::DB* /*db*/,
                    const rocksdb::FlushJobInfo& /*job*/) override {
    compacts = false;
  }
};

// State shared by all files. Outlives them, like the file system.
class Keeper {
 public:
  Keeper(Env& env, Ballast* ballast, CompactionPause& pause)
      : env_(env), ballast_(ballast), pause_(pause) {}

  bool is_durable() const { return env_.is_durable(); }

  // Returns OK if the operation may proceed.
  IOStatus Admit() {
    const absl::Status status = env_.AdmitIndexOperation();
    if (status.ok()) return IOStatus::OK();
    return absl::IsResourceExhausted(status)
               ? IOStatus::NoSpace(std::string(status.message()))
               : IOStatus::IOError(std::string(status.message()));
  }

  // Executes `operation`, using the space of the ballast if there is no other.
  template <typename Operation>
  IOStatus Do(const Operation& operation) {
    IOStatus status = Admit();
    if (!status.ok()) return status;
    status = operation();
    if (ballast_ == nullptr) return status;
    for (int attempt = 1; attempt < kAttemptsMax && status.IsNoSpace();
         ++attempt) {
      // Another thread may have released it in the meantime.
      ballast_->Release();
      status = operation();
    }
    return status;
  }

  // Checks whether a compaction may write to `path`.
  IOStatus AdmitCompaction(const std::string& path) {
    if (pause_.is_on()) return NoRoom();
    const absl::StatusOr<uint64_t> free = env_.FreeBytes(path);
    if (!free.ok() || *free >= kCompactionRoomBytes) return IOStatus::OK();
    return PauseCompaction();
  }

  IOStatus PauseCompaction() {
    pause_.Begin();
    return NoRoom();
  }

  // Makes opening the file at `path` fail with `status`.
  void Break(const std::string& path, const IOStatus& status) {
    const MutexLock lock(mu_);
    broken_.emplace(path, status);
  }
  IOStatus AdmitRead(const std::string& path) {
    {
      const MutexLock lock(mu_);
      const auto it = broken_.find(path);
      if (it != broken_.end()) return it->second;
    }
    return Admit();
  }
  void Forget(const std::string& path) {
    const MutexLock lock(mu_);
    broken_.erase(path);
  }

 private:
  // An error other than `no space`, which would stop all writes.
  static IOStatus NoRoom() {
    IOStatus status =
        IOStatus::IOError("the disk has too little room for a compaction");
    status.SetRetryable(true);
    return status;
  }

  Env& env_;
  Ballast* const ballast_;
  CompactionPause& pause_;

  Mutex mu_;
  std::map<std::string, IOStatus> broken_ ABSL_GUARDED_BY(mu_);
};

class IndexFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  IndexFile(std::unique_ptr<FSWritableFile> file, std::string path,
            Keeper& keeper, bool is_compaction)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        keeper_(keeper),
        is_compaction_(is_compaction) {}

  IOStatus Append(const Slice& data, const IOOptions& options,
                  IODebugContext* context) override {
    if (is_compaction_) return AppendOfCompaction(data, options, context);
    return keeper_.Do([&] { return AppendAt(data, options, context); });
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*verification*/,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = keeper_.Admit();
    if (status.ok() && keeper_.is_durable()) {
      status = target()->Sync(options, context);
    }
    return ShownToRocksdb(status);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    IOStatus status = keeper_.Admit();
    if (status.ok() && keeper_.is_durable()) {
      status = target()->Fsync(options, context);
    }
    return ShownToRocksdb(status);
  }

 private:
  // Writes at the tracked end of the file, so that a retry overwrites the data
  // of a failed attempt.
  IOStatus AppendAt(const Slice& data, const IOOptions& options,
                    IODebugContext* context) {
    const IOStatus status =
        target()->PositionedAppend(data, end_bytes_, options, context);
    if (status.ok()) end_bytes_ += data.size();
    return status;
  }

  IOStatus AppendOfCompaction(const Slice& data, const IOOptions& options,
                              IODebugContext* context) {
    // Such a small write is not worth refusing.
    if (end_bytes_ + data.size() <= kEmptyTableBytesMax) {
      return ShownToRocksdb(
          keeper_.Do([&] { return AppendAt(data, options, context); }));
    }
    IOStatus status = keeper_.AdmitCompaction(path_);
    if (status.ok()) status = keeper_.Admit();
    if (status.ok()) status = AppendAt(data, options, context);
    return status.IsNoSpace() ? keeper_.PauseCompaction() : status;
  }

  // Returns the status that RocksDB receives instead of `status`; see
  // kEmptyTableBytesMax.
  IOStatus ShownToRocksdb(const IOStatus& status) {
    if (status.ok() || !is_compaction_ || end_bytes_ > kEmptyTableBytesMax) {
      return status;
    }
    keeper_.Break(path_, status);
    return IOStatus::OK();
  }

  const std::string path_;
  Keeper& keeper_;
  const bool is_compaction_;
  uint64_t end_bytes_ = 0;
};

class IndexDirectory final : public FSDirectory {
 public:
  IndexDirectory(std::unique_ptr<FSDirectory> directory, Keeper& keeper)
      : directory_(std::move(directory)), keeper_(keeper) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override {
    const IOStatus status = keeper_.Admit();
    if (!status.ok() || !keeper_.is_durable()) return status;
    return directory_->Fsync(options, context);
  }
  IOStatus FsyncWithDirOptions(
      const IOOptions& options, IODebugContext* context,
      const rocksdb::DirFsyncOptions& directory_options) override {
    const IOStatus status = keeper_.Admit();
    if (!status.ok() || !keeper_.is_durable()) return status;
    return directory_->FsyncWithDirOptions(options, context, directory_options);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    return directory_->Close(options, context);
  }
  size_t GetUniqueId(char* id, size_t max_size) const override {
    return directory_->GetUniqueId(id, max_size);
  }

 private:
  const std::unique_ptr<FSDirectory> directory_;
  Keeper& keeper_;
};

class IndexFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  IndexFileSystem(Env& env, Ballast* ballast, CompactionPause& pause)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        keeper_(env, ballast, pause) {}

  const char* Name() const override { return "msitd"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out,
                           IODebugContext* context) override {
    const IOStatus status = keeper_.Do(
        [&] { return target()->NewWritableFile(path, options, out, context); });
    if (!status.ok()) return status;
    // Files other than tables are never refused, even if a compaction begins
    // them.
    const bool is_compaction = compacts && path.ends_with(kTableSuffix);
    *out = std::make_unique<IndexFile>(std::move(*out), path, keeper_,
                                       is_compaction);
    return status;
  }

  IOStatus NewRandomAccessFile(
      const std::string& path, const FileOptions& options,
      std::unique_ptr<rocksdb::FSRandomAccessFile>* out,
      IODebugContext* context) override {
    const IOStatus status = keeper_.AdmitRead(path);
    if (!status.ok()) return status;
    return target()->NewRandomAccessFile(path, options, out, context);
  }

  IOStatus NewSequentialFile(const std::string& path,
                             const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* out,
                             IODebugContext* context) override {
    const IOStatus status = keeper_.Admit();
    if (!status.ok()) return status;
    return target()->NewSequentialFile(path, options, out, context);
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* out,
                        IODebugContext* context) override {
    IOStatus status = keeper_.Admit();
    if (status.ok()) {
      status = target()->NewDirectory(path, options, out, context);
    }
    if (!status.ok()) return status;
    *out = std::make_unique<IndexDirectory>(std::move(*out), keeper_);
    return status;
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* context) override {
    return keeper_.Do(
        [&] { return target()->CreateDirIfMissing(path, options, context); });
  }

  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options,
                      IODebugContext* context) override {
    return keeper_.Do(
        [&] { return target()->RenameFile(from, to, options, context); });
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* context) override {
    const IOStatus status = keeper_.Admit();
    if (!status.ok()) return status;
    keeper_.Forget(path);
    return target()->DeleteFile(path, options, context);
  }

 private:
  Keeper keeper_;
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> MakeIndexFileSystem(
    Env& env, Ballast* ballast, CompactionPause& pause) {
  return std::make_shared<IndexFileSystem>(env, ballast, pause);
}

std::shared_ptr<rocksdb::EventListener> MakeCompactionListener() {
  return std::make_shared<CompactionListener>();
}

}  // namespace msitd::storage
