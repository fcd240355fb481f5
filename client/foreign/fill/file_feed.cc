// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/file_feed.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "protos/base/limits.h"
#include "protos/os/unique_fd.h"

namespace msitd::fill {
namespace {

// Bytes to read ahead of a file. The rest is read while these are sent.
constexpr off_t kReadAheadBytes = off_t{32} << 20;

}  // namespace

class FileFeed::Source final : public libmsit::TensorSource {
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
  // A reader requires more memory than the end of a tensor may need.
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

std::optional<DType> FileFeed::OfSize(size_t bytes) const {
  if (!IsValid(dtype_) || ElementBytes(dtype_) != bytes) return std::nullopt;
  return dtype_;
}

absl::Status FileFeed::Reopen() {
  file_.reset();
  numbers_.clear();
  auto opened = bytes_ != nullptr ? formats::OpenTensorBytes(bytes_, "", {})
                                  : formats::OpenTensorFile(
                                        path_, {.void1 = OfSize(1),
                                                .void2 = OfSize(2),
                                                .atb_folders = &atb_folders_,
                                                .orders_names = true});
  if (!opened.ok()) return opened.status();
  file_ = *std::move(opened);
  return absl::OkStatus();
}

absl::Status FileFeed::Open(const trees::TreeEntry& entry) {
  if (file_ != nullptr && !entry.tensor.empty() && path_ == entry.file &&
      dtype_ == entry.dtype) {
    return absl::OkStatus();
  }
  path_ = entry.file;
  dtype_ = entry.dtype;
  bytes_.reset();
  if (entry.opened == nullptr) return Reopen();
  numbers_.clear();
  file_ = entry.opened;
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

formats::FileKind FileFeed::kind() const { return file_->kind(); }

const formats::Attributes& FileFeed::attributes() const {
  return file_->attributes();
}

void FileFeed::ReadAhead(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return;
  (void)::posix_fadvise(file.get(), 0, kReadAheadBytes, POSIX_FADV_WILLNEED);
}

const formats::ForeignTensor* FileFeed::Find(const std::string& name) {
  if (numbers_.empty()) {
    for (size_t i = 0; i < file_->tensor_count(); ++i) {
      numbers_.emplace(file_->GoTo(i)->name, i);
    }
  }
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : file_->GoTo(found->second);
}

const formats::ForeignTensor* FileFeed::Next(const trees::TreeEntry& entry) {
  const formats::ForeignTensor* tensor = file_->Next();
  // The entries may be in another order than the tensors of the file.
  const bool is_other = !entry.tensor.empty() &&
                        (tensor == nullptr || tensor->name != entry.tensor);
  if (is_other) tensor = Find(entry.tensor);
  source_->Start(file_.get());
  return tensor;
}

libmsit::TensorSource& FileFeed::source() { return *source_; }

const absl::Status& FileFeed::source_status() const {
  return source_->status();
}

}  // namespace msitd::fill
