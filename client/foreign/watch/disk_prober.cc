// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/disk_prober.h"

#include <sys/stat.h>

#include "client/foreign/formats/tensor_file.h"
#include "protos/status/status.h"

namespace msitd::watch {
namespace {

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

bool ReadStamp(const std::string& path, FileStamp* stamp) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return false;
  }
  stamp->bytes = static_cast<uint64_t>(about.st_size);
  stamp->mtime_ns = Nanoseconds(about.st_mtim);
  stamp->ctime_ns = Nanoseconds(about.st_ctim);
  stamp->inode = about.st_ino;
  return true;
}

Length ProbeLength(const std::string& path, formats::AtbFolders& folders,
                   std::string* reason) {
  const auto file = formats::OpenTensorFile(
      path, {.void1 = {}, .void2 = {}, .atb_folders = &folders});
  if (!file.ok()) {
    *reason = std::string(Message(file.status()));
    return absl::IsDataLoss(file.status()) ? Length::kMore : Length::kUnknown;
  }
  while (const formats::ForeignTensor* tensor = (*file)->Next()) {
    if (!absl::IsDataLoss(tensor->problem)) continue;
    *reason = std::string(Message(tensor->problem));
    return Length::kMore;
  }
  // Further lines may be appended to a table of statistics.
  return (*file)->kind() == formats::FileKind::kGeStats ? Length::kUnknown
                                                        : Length::kWhole;
}

}  // namespace msitd::watch
