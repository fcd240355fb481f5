// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/source_keeper.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/foreign/trees/tree_folder.h"
#include "client/foreign/watch/disk_prober.h"
#include "client/foreign/watch/min_max.h"
#include "client/foreign/watch/path_name.h"
#include "client/foreign/write/output_folder.h"
#include "client/foreign/write/writer/zip_writer.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

constexpr size_t kDurableFoldersMax = 65536;

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid() && ::fsync(fd.get()) == 0) return absl::OkStatus();
  // A file system that does not support it needs no sync.
  if (fd.valid() && errno == EINVAL) return absl::OkStatus();
  return ErrnoStatus(errno, folder);
}

// Prevents programs from opening a file for writing. They wait until this
// object is destroyed.
class NoWriter {
 public:
  // Returns UNAVAILABLE if a program has the file open for writing, or mapped.
  // If the system does not report this, there is no such program.
  absl::Status Take(const std::string& path) {
    file_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_.valid()) return ErrnoStatus(errno, path);
    // The signal that the kernel sends when a program is blocked by the lease.
    // It is ignored.
    (void)::fcntl(file_.get(), F_SETSIG, SIGURG);
    if (::fcntl(file_.get(), F_SETLEASE, F_RDLCK) == 0) return absl::OkStatus();
    if (errno != EAGAIN) return absl::OkStatus();
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "{}: a program has it open for writing", path);
  }

 private:
  UniqueFd file_;
};

absl::Status WriteArchive(const std::vector<MinMax>& rows,
                          write::OutputFile& file) {
  write::ZipWriter zip(file);
  for (const Io io : {Io::kInput, Io::kOutput}) {
    std::vector<MinMax> of_io;
    for (const MinMax& row : rows) {
      if (row.io == io) of_io.push_back(row);
    }
    MSITD_RETURN_IF_ERROR(
        zip.Add(io == Io::kInput ? "inputs.npy" : "outputs.npy",
                MinMaxArray(of_io, /*is_one=*/false)));
  }
  return zip.Finish();
}

absl::Status WriteMinMax(const std::vector<MinMax>& rows,
                         const std::string& name, write::OutputFile& file) {
  if (name.ends_with(".npz")) return WriteArchive(rows, file);
  return file.Write(MinMaxArray(rows, /*is_one=*/true));
}

absl::Status Changed() {
  return absl::FailedPreconditionError("it changed after it was read");
}

}  // namespace

struct SourceKeeper::Source {
  std::string path;
  FileStamp stamp;
  // FAILED_PRECONDITION if the file must stay; NOT_FOUND if it was removed.
  // Other errors may be temporary.
  absl::Status status;
  // Its `_min_max` file; empty if none is written.
  std::string made;
  std::unique_ptr<write::OutputFile> file;
  bool is_made = false;
  bool is_deleted = false;
};

// Files that are processed together, so that their folders are synced once.
class SourceKeeper::Batch {
 public:
  explicit Batch(SourceKeeper& keeper) : keeper_(keeper) {}

  size_t count() const { return sources_.size(); }
  uint64_t read_bytes() const { return read_bytes_; }

  void Add(Source source) {
    source.status = Prepare(source);
    sources_.push_back(std::move(source));
  }

  // Returns all files, each with its outcome.
  std::vector<Source> Finish() {
    ForEachSound([this](Source& source) { return Commit(source); });
    std::map<std::string, absl::Status> folders;
    ForEachSound([&](Source& source) {
      if (!source.is_made) return absl::OkStatus();
      const std::string folder = SplitName(source.path).first;
      const auto known = folders.find(folder);
      if (known != folders.end()) return known->second;
      return folders[folder] = MakeDurable(folder);
    });
    if (keeper_.options_.deletes) {
      ForEachSound([this](Source& source) { return Remove(source); });
    }
    return std::move(sources_);
  }

 private:
  template <typename Step>
  void ForEachSound(Step step) {
    for (Source& source : sources_) {
      if (source.status.ok()) source.status = step(source);
    }
  }

  std::string PathOf(const std::string& path) const {
    return trees::JoinPath(keeper_.root_, path);
  }

  absl::Status CheckStamp(const Source& source) const {
    FileStamp now;
    if (!ReadStamp(PathOf(source.path), &now)) return absl::NotFoundError("");
    return now == source.stamp ? absl::OkStatus() : Changed();
  }

  absl::Status Prepare(Source& source) {
    MSITD_RETURN_IF_ERROR(CheckStamp(source));
    if (keeper_.options_.deletes) {
      NoWriter no_writer;
      MSITD_RETURN_IF_ERROR(no_writer.Take(PathOf(source.path)));
    }
    if (!keeper_.options_.writes_min_max) return absl::OkStatus();
    const auto [folder, name] = SplitName(source.path);
    const auto made = MinMaxName(name);
    if (!made) {
      return absl::FailedPreconditionError(
          "it cannot be written as a _min_max file");
    }
    const std::string path = trees::JoinPath(folder, *made);
    FileStamp old;
    const bool is_made =
        ReadStamp(PathOf(path), &old) && old.mtime_ns > source.stamp.ctime_ns;
    // A file that another program wrote need not be durable.
    if (is_made && !keeper_.options_.deletes) return absl::OkStatus();
    return WriteFile(source, path);
  }

  absl::Status WriteFile(Source& source, const std::string& path) {
    std::vector<MinMax> rows;
    const absl::Status read = ReadMinMax(PathOf(source.path), &rows);
    read_bytes_ += source.stamp.bytes;
    const bool is_one = !path.ends_with(".npy") || rows.size() == 1;
    if (!read.ok() || !is_one) {
      return absl::FailedPreconditionError(read.message());
    }
    if (out_ == nullptr) {
      MSITD_ASSIGN_OR_RETURN(
          out_, write::OutputFolder::Open(keeper_.root_, /*replaces=*/true));
    }
    MSITD_ASSIGN_OR_RETURN(source.file, out_->Create(path));
    MSITD_RETURN_IF_ERROR(WriteMinMax(rows, path, *source.file));
    source.made = path;
    return absl::OkStatus();
  }

  absl::Status Commit(Source& source) {
    if (source.file == nullptr) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(source.file->Sync());
    // The bytes that were read may be from two versions.
    MSITD_RETURN_IF_ERROR(CheckStamp(source));
    MSITD_RETURN_IF_ERROR(source.file->Commit());
    source.is_made = true;
    return absl::OkStatus();
  }

  // Makes the contents of the folder durable, and once also the names on its
  // path.
  absl::Status MakeDurable(std::string folder) {
    MSITD_RETURN_IF_ERROR(SyncFolder(PathOf(folder)));
    auto& durable = keeper_.durable_folders_;
    if (durable.size() >= kDurableFoldersMax) durable.clear();
    while (!folder.empty() && !durable.contains(folder)) {
      const std::string above = SplitName(folder).first;
      MSITD_RETURN_IF_ERROR(SyncFolder(PathOf(above)));
      durable.insert(folder);
      folder = above;
    }
    return absl::OkStatus();
  }

  absl::Status Remove(Source& source) {
    const std::string path = PathOf(source.path);
    NoWriter no_writer;
    MSITD_RETURN_IF_ERROR(no_writer.Take(path));
    MSITD_RETURN_IF_ERROR(CheckStamp(source));
    if (::unlink(path.c_str()) != 0) {
      return ErrnoStatus(errno, "remove " + path);
    }
    source.is_deleted = true;
    return absl::OkStatus();
  }

  SourceKeeper& keeper_;
  std::vector<Source> sources_;
  uint64_t read_bytes_ = 0;
  std::unique_ptr<write::OutputFolder> out_;
};

void SourceKeeper::Take(const std::string& path, const FileStamp& stamp) {
  if (!is_on()) return;
  const auto kept = kept_.find(path);
  if (kept != kept_.end() && kept->second == stamp) return;
  const auto known = stamps_.find(path);
  if (known != stamps_.end()) {
    known->second = stamp;
  } else if (has_given_up_ || stamps_.size() >= kWaitingMax) {
    Keep(path, stamp);
  } else {
    stamps_[path] = stamp;
    waiting_.push_back(path);
  }
}

void SourceKeeper::Keep(const std::string& path, const FileStamp& stamp) {
  if (kept_.size() < kWaitingMax) {
    kept_[path] = stamp;
  } else {
    ++untold_count_;
  }
}

void SourceKeeper::GiveUp() {
  has_given_up_ = true;
  for (const auto& [path, stamp] : stamps_) Keep(path, stamp);
  stamps_.clear();
  waiting_.clear();
  failed_.clear();
  failure_ = absl::OkStatus();
}

void SourceKeeper::Work(std::chrono::steady_clock::time_point now,
                        bool is_end) {
  if (!failed_.empty() && (is_end || now >= retry_time_)) {
    waiting_.insert(waiting_.end(), failed_.begin(), failed_.end());
    failed_.clear();
  }
  do {
    if (!waiting_.empty()) DoBatch(now);
  } while (is_end && !waiting_.empty());
  if (failed_.empty()) failure_ = absl::OkStatus();
}

void SourceKeeper::DoBatch(std::chrono::steady_clock::time_point now) {
  Batch batch(*this);
  while (!waiting_.empty() && batch.count() < kBatchMax &&
         batch.read_bytes() < kBatchBytesMax) {
    std::string path = std::move(waiting_.front());
    waiting_.pop_front();
    Source source;
    source.stamp = stamps_.at(path);
    source.path = std::move(path);
    batch.Add(std::move(source));
  }
  for (const Source& source : batch.Finish()) Settle(source, now);
}

void SourceKeeper::Settle(const Source& source,
                          std::chrono::steady_clock::time_point now) {
  const absl::Status& status = source.status;
  const bool stays = absl::IsFailedPrecondition(status);
  if (source.is_made) {
    ++min_max_count_;
    made_.push_back(source.made);
  }
  if (source.is_deleted) ++deleted_count_;
  if (status.ok() || stays || absl::IsNotFound(status)) {
    stamps_.erase(source.path);
    kept_.erase(source.path);
    if (stays) Keep(source.path, source.stamp);
    return;
  }
  failed_.push_back(source.path);
  failure_ = status;
  retry_time_ = now + kRetryInterval;
}

}  // namespace msitd::watch
