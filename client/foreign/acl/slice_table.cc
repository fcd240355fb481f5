// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/slice_table.h"

#include <cstring>
#include <exception>
#include <utility>

namespace msitd::acl {
namespace {

constexpr std::string_view kAfterTheEnd =
    "it arrived after the end of the stream";

}  // namespace

SliceTable::SliceTable(
    const Options& options,
    std::function<void(std::string_view, std::string_view)> on_lost)
    : options_(options),
      on_lost_(std::move(on_lost)),
      overflow_(options.overflow, options.max_block) {}

std::string_view SliceTable::WhyNot(const Slice& slice) const {
  if (is_over_) return kAfterTheEnd;
  const uint64_t limit = options_.memory_bytes_max;
  const auto open = open_.find(slice.file);
  const uint64_t end = open == open_.end() ? 0 : open->second.bytes.end();
  const uint64_t offset = slice.offset.value_or(end);
  if (offset > limit || slice.bytes.size() > limit - offset) {
    return "it is larger than MSITD_ACL_BUFFER_BYTES";
  }
  if (open == open_.end() && open_.size() >= kOpenFilesMax) {
    return "too many files are open";
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

void SliceTable::Uncharge(uint64_t bytes) {
  used_bytes_ -= bytes;
  room_.NotifyAll();
}

bool SliceTable::MarkLost(std::string_view file) {
  const auto open = open_.find(file);
  if (open != open_.end()) {
    Uncharge(open->second.charged_bytes);
    open_.erase(open);
  }
  if (passed_over_.contains(file)) return false;
  ++counts_.lost_file_count;
  PassOver(file);
  return true;
}

void SliceTable::PassOver(std::string_view file) {
  if (passed_over_.size() >= kLostNamesMax) return;
  try {
    passed_over_.emplace(file);
  } catch (const std::exception&) {
    // For lack of memory, the name is treated as one beyond kLostNamesMax.
  }
}

DumpFile SliceTable::MoveOut(std::string path, OpenFile& file, bool is_whole) {
  return {std::move(path), file.bytes.TakePrefix(), file.charged_bytes,
          is_whole};
}

void SliceTable::Insert(const Slice& slice,
                        std::shared_ptr<const std::byte[]> memory,
                        uint64_t& charged_bytes) {
  const auto [open, is_new] = open_.try_emplace(std::string(slice.file));
  OpenFile& file = open->second;
  file.charged_bytes += std::exchange(charged_bytes, 0);
  const uint64_t offset = slice.offset.value_or(file.bytes.end());
  file.bytes.Put(offset, std::move(memory), slice.bytes.size());
  file.has_last = file.has_last || slice.is_last;
  // An empty file is not complete: its bytes are still to arrive.
  const bool is_whole = file.has_last && file.bytes.end() > 0 &&
                        file.bytes.prefix() == file.bytes.end();
  if (!is_whole) return;
  whole_.push_back(MoveOut(open->first, file, /*is_whole=*/true));
  open_.erase(open);
  work_.NotifyOne();
}

std::string_view SliceTable::TryPut(const Slice& slice,
                                    uint64_t& charged_bytes) {
  {
    const MutexLock lock(mu_);
    ++counts_.slice_count;
    if (passed_over_.contains(slice.file)) return {};
    const std::string_view why = WhyNot(slice);
    if (!why.empty()) return why;
    uint64_t bytes = slice.bytes.size() + kSliceBytes;
    if (!open_.contains(slice.file)) {
      bytes += kFileBytes + 2 * slice.file.size();
    }
    if (!Charge(bytes)) {
      return is_over_ ? kAfterTheEnd : "there was not enough memory";
    }
    charged_bytes = bytes;
  }
  std::shared_ptr<std::byte[]> memory;
  if (!slice.bytes.empty()) {
    memory = std::make_shared_for_overwrite<std::byte[]>(slice.bytes.size());
    std::memcpy(memory.get(), slice.bytes.data(), slice.bytes.size());
  }
  const MutexLock lock(mu_);
  // Another slice may have lost the file in the meantime.
  if (passed_over_.contains(slice.file)) {
    Uncharge(std::exchange(charged_bytes, 0));
    return {};
  }
  if (is_over_) return kAfterTheEnd;
  Insert(slice, std::move(memory), charged_bytes);
  return {};
}

void SliceTable::Put(const Slice& slice) {
  uint64_t charged_bytes = 0;
  std::string_view why;
  try {
    why = TryPut(slice, charged_bytes);
    if (why.empty()) return;
  } catch (const std::exception&) {
    why = "the process does not have enough memory for it";
  }
  bool is_new = false;
  {
    const MutexLock lock(mu_);
    Uncharge(charged_bytes);
    is_new = MarkLost(slice.file);
  }
  if (is_new) on_lost_(why, slice.file);
}

void SliceTable::Lose(std::string_view file, std::string_view why) {
  {
    const MutexLock lock(mu_);
    ++counts_.slice_count;
    if (file.empty()) {
      ++counts_.nameless_slice_count;
    } else if (!MarkLost(file)) {
      return;
    }
  }
  on_lost_(why, file);
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
  // The steps that may fail are first, so that the file stays in that case.
  PassOver(open->first);
  DumpFile file = MoveOut(open->first, open->second, /*is_whole=*/false);
  open_.erase(open);
  return file;
}

void SliceTable::Release(uint64_t charged_bytes) {
  const MutexLock lock(mu_);
  overflow_.OnProgress();
  Uncharge(charged_bytes);
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
