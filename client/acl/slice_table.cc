// SPDX-License-Identifier: Apache-2.0
#include "client/acl/slice_table.h"

#include <cstring>
#include <utility>

namespace msitd::acl {

SliceTable::SliceTable(
    const Options& options,
    std::function<void(std::string_view, std::string_view)> on_lost)
    : options_(options),
      on_lost_(std::move(on_lost)),
      overflow_(options.overflow, options.max_block) {}

std::string_view SliceTable::WhyNot(const Slice& slice) const {
  const uint64_t limit = options_.memory_bytes_max;
  const auto open = open_.find(slice.file);
  const uint64_t end = open == open_.end() ? 0 : open->second.bytes.end();
  const uint64_t offset = slice.offset.value_or(end);
  if (offset > limit || slice.bytes.size() > limit - offset) {
    return "it is larger than MSITD_ACL_BUFFER_BYTES";
  }
  if (open == open_.end() && open_.size() >= kOpenFilesMax) {
    return "too many files have begun and not ended";
  }
  return {};
}

bool SliceTable::Charge(uint64_t bytes) {
  std::optional<Clock::time_point> deadline;
  while (bytes > options_.memory_bytes_max - used_bytes_) {
    if (is_over_) return false;
    const auto now = Clock::now();
    if (!deadline) deadline = overflow_.DeadlineFor(now);
    if (now >= *deadline) {
      overflow_.OnTimeout();
      return false;
    }
    room_.WaitUntil(mu_, *deadline);
  }
  used_bytes_ += bytes;
  return true;
}

void SliceTable::Lose(const Slice& slice) {
  std::string name(slice.file);
  const auto open = open_.find(name);
  if (open != open_.end()) {
    used_bytes_ -= open->second.charged_bytes;
    open_.erase(open);
    room_.NotifyAll();
  }
  if (lost_.contains(name)) return;
  ++counts_.lost_file_count;
  if (lost_.size() < kLostNamesMax) lost_.insert(std::move(name));
}

DumpFile SliceTable::MoveOut(std::string path, OpenFile& file, bool is_whole) {
  return {std::move(path), file.bytes.TakePrefix(), file.charged_bytes,
          is_whole};
}

void SliceTable::Insert(const Slice& slice,
                        std::shared_ptr<const std::byte[]> memory,
                        uint64_t charged_bytes) {
  const auto [open, is_new] = open_.try_emplace(std::string(slice.file));
  OpenFile& file = open->second;
  file.charged_bytes += charged_bytes;
  const uint64_t offset = slice.offset.value_or(file.bytes.end());
  file.bytes.Put(offset, std::move(memory), slice.bytes.size());
  file.has_last = file.has_last || slice.is_last;
  // An empty file is none: its bytes are on their way.
  const bool is_whole = file.has_last && file.bytes.end() > 0 &&
                        file.bytes.prefix() == file.bytes.end();
  if (!is_whole) return;
  whole_.push_back(MoveOut(open->first, file, /*is_whole=*/true));
  open_.erase(open);
  work_.NotifyOne();
}

void SliceTable::Put(const Slice& slice) {
  std::string_view why;
  uint64_t charged_bytes = slice.bytes.size() + kSliceBytes;
  {
    const MutexLock lock(mu_);
    ++counts_.slice_count;
    if (is_over_) return;
    if (lost_.contains(std::string(slice.file))) return;
    if (!open_.contains(slice.file)) {
      charged_bytes += kFileBytes + 2 * slice.file.size();
    }
    why = WhyNot(slice);
    if (why.empty() && !Charge(charged_bytes)) why = "there was no memory left";
    if (!why.empty()) Lose(slice);
  }
  if (!why.empty()) return on_lost_(why, slice.file);
  std::shared_ptr<std::byte[]> memory;
  if (!slice.bytes.empty()) {
    memory = std::make_shared_for_overwrite<std::byte[]>(slice.bytes.size());
    std::memcpy(memory.get(), slice.bytes.data(), slice.bytes.size());
  }
  const MutexLock lock(mu_);
  // Meanwhile another slice may have lost the file.
  if (is_over_ || lost_.contains(std::string(slice.file))) {
    used_bytes_ -= charged_bytes;
    return;
  }
  Insert(slice, std::move(memory), charged_bytes);
}

std::optional<DumpFile> SliceTable::Take(Clock::time_point deadline) {
  const MutexLock lock(mu_);
  while (whole_.empty() && !is_woken_ && Clock::now() < deadline) {
    work_.WaitUntil(mu_, deadline);
  }
  is_woken_ = false;
  if (whole_.empty()) return std::nullopt;
  DumpFile file = std::move(whole_.front());
  whole_.pop_front();
  return file;
}

void SliceTable::Wake() {
  const MutexLock lock(mu_);
  is_woken_ = true;
  work_.NotifyOne();
}

std::optional<DumpFile> SliceTable::TakeOpen() {
  const MutexLock lock(mu_);
  is_over_ = true;
  room_.NotifyAll();
  if (open_.empty()) return std::nullopt;
  const auto open = open_.begin();
  DumpFile file = MoveOut(open->first, open->second, /*is_whole=*/false);
  open_.erase(open);
  return file;
}

void SliceTable::Release(uint64_t charged_bytes) {
  const MutexLock lock(mu_);
  used_bytes_ -= charged_bytes;
  overflow_.OnProgress();
  room_.NotifyAll();
}

std::vector<std::string> SliceTable::OpenFiles(std::string_view prefix) const {
  const MutexLock lock(mu_);
  std::vector<std::string> paths;
  for (auto open = open_.lower_bound(prefix);
       open != open_.end() && open->first.starts_with(prefix) &&
       paths.size() < kOpenFilesShown;
       ++open) {
    paths.push_back(open->first);
  }
  return paths;
}

bool SliceTable::is_short_of_memory() const {
  const MutexLock lock(mu_);
  return used_bytes_ > options_.memory_bytes_max / 2;
}

SliceTable::Counts SliceTable::counts() const {
  const MutexLock lock(mu_);
  return counts_;
}

}  // namespace msitd::acl
