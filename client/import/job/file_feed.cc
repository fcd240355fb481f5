// SPDX-License-Identifier: Apache-2.0
#include "client/import/job/file_feed.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "client/import/formats/format_limits.h"
#include "protos/base/limits.h"
#include "protos/os/unique_fd.h"

namespace msitd::job {
namespace {

// Of a file that is read ahead: more is read while this is sent.
constexpr off_t kReadAheadBytes = off_t{32} << 20;

}  // namespace

class FileFeed::Source final : public client::TensorSource {
 public:
  void Start(formats::TensorFile* file) {
    file_ = file;
    status_ = absl::OkStatus();
  }

  bool Read(std::span<std::byte> out) override {
    while (!out.empty()) {
      const auto count = out.size() < formats::kReadBytesMin ? ReadSmall(out)
                                                             : file_->Read(out);
      if (!count.ok()) {
        status_ = count.status();
        return false;
      }
      if (*count == 0) {
        status_ = absl::DataLossError("it ends before its last element");
        return false;
      }
      out = out.subspan(*count);
    }
    return true;
  }

  std::span<std::byte> scratch() override {
    if (scratch_.empty()) scratch_.resize(kPartBytes);
    return scratch_;
  }

  const absl::Status& status() const { return status_; }

 private:
  // A reader wants more room than the end of a tensor may need.
  absl::StatusOr<size_t> ReadSmall(std::span<std::byte> out) {
    std::array<std::byte, formats::kReadBytesMin> bytes = {};
    const auto count = file_->Read(bytes);
    if (!count.ok()) return count;
    const size_t taken = std::min(*count, out.size());
    std::copy_n(bytes.begin(), taken, out.begin());
    return taken;
  }

  formats::TensorFile* file_ = nullptr;
  absl::Status status_;
  std::vector<std::byte> scratch_;
};

FileFeed::FileFeed() : source_(std::make_unique<Source>()) {}

FileFeed::~FileFeed() = default;

absl::Status FileFeed::Reopen() {
  file_.reset();
  auto opened =
      bytes_ != nullptr
          ? formats::OpenTensorBytes(bytes_, "", {})
          : formats::OpenTensorFile(
                path_,
                {.void1 = {}, .void2 = {}, .atb_folders = &atb_folders_});
  if (!opened.ok()) return opened.status();
  file_ = *std::move(opened);
  is_at_begin_ = true;
  return absl::OkStatus();
}

absl::Status FileFeed::Open(const trees::TreeEntry& entry) {
  if (file_ != nullptr && !entry.tensor.empty() && path_ == entry.file) {
    return absl::OkStatus();
  }
  path_ = entry.file;
  bytes_.reset();
  if (entry.opened == nullptr) return Reopen();
  file_ = entry.opened;
  is_at_begin_ = true;
  return absl::OkStatus();
}

absl::Status FileFeed::Open(std::shared_ptr<const formats::ByteSource> bytes) {
  path_.clear();
  bytes_ = std::move(bytes);
  return Reopen();
}

void FileFeed::Close() {
  file_.reset();
  bytes_.reset();
  path_.clear();
}

const formats::Attributes& FileFeed::attributes() const {
  return file_->attributes();
}

void FileFeed::ReadAhead(const std::string& path) {
  // Without O_NONBLOCK, a pipe would wait for its writer.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return;
  (void)::posix_fadvise(file.get(), 0, kReadAheadBytes, POSIX_FADV_WILLNEED);
}

const formats::ForeignTensor* FileFeed::Next(const trees::TreeEntry& entry) {
  for (;;) {
    const bool was_at_begin = std::exchange(is_at_begin_, false);
    const formats::ForeignTensor* tensor = file_->Next();
    while (tensor != nullptr && !entry.tensor.empty() &&
           tensor->name != entry.tensor) {
      tensor = file_->Next();
    }
    source_->Start(file_.get());
    // It may lie before the one that was asked for last.
    const bool may_come = tensor == nullptr && !entry.tensor.empty() &&
                          !was_at_begin && Reopen().ok();
    if (!may_come) return tensor;
  }
}

client::TensorSource& FileFeed::source() { return *source_; }

const absl::Status& FileFeed::source_status() const {
  return source_->status();
}

}  // namespace msitd::job
