// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/batch_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/foreign/trees/atb_graphs.h"

namespace msitd::msit_command {
namespace {

uint64_t SizeOf(const std::string& file) {
  struct stat about = {};
  if (file.empty() || ::stat(file.c_str(), &about) != 0) return 0;
  return static_cast<uint64_t>(about.st_size);
}

bool IsOfWarmUp(const trees::TreeEntry& entry) {
  const std::string& op = entry.key.op;
  const size_t size = trees::kAtbWarmUp.size();
  return op.starts_with(trees::kAtbWarmUp) && op.size() > size &&
         op[size] == '/';
}

}  // namespace

void BatchTree::BeginBatch(std::optional<int64_t> last_token) {
  files_.Clear();
  token_.reset();
  token_max_ = last_token;
  led_ = nullptr;
  followed_ = nullptr;
  bytes_ = 0;
}

void BatchTree::LeadBatch(TokenGate& gate) {
  BeginBatch(std::nullopt);
  led_ = &gate;
}

void BatchTree::FollowBatch(TokenGate& gate) {
  BeginBatch(std::nullopt);
  followed_ = &gate;
}

bool BatchTree::IsBehind(const trees::TreeEntry& entry) {
  const int64_t token = entry.key.token;
  if (token_max_.has_value()) return token > *token_max_;
  if (IsLimitedBySize()) {
    return token_.has_value() && *token_ != token && bytes_ >= kTokenBatchBytes;
  }
  return token_ != token && !followed_->Has(token);
}

bool BatchTree::IsLimitedBySize() const {
  return !token_max_.has_value() && followed_ == nullptr;
}

const trees::TreeEntry* BatchTree::Take(const trees::TreeEntry* entry) {
  if (led_ != nullptr && token_ != entry->key.token) {
    led_->Reach(entry->key.token);
  }
  token_ = entry->key.token;
  if (IsLimitedBySize()) bytes_ += SizeOf(entry->file);
  status_.Update(files_.Note(*entry));
  return status_.ok() ? entry : nullptr;
}

void BatchTree::KeepFolders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) folders_.push_back(folder + "/");
}

bool BatchTree::IsKept(const trees::TreeEntry& entry) const {
  const bool is_there = std::any_of(folders_.begin(), folders_.end(),
                                    [&entry](const std::string& folder) {
                                      return entry.file.starts_with(folder);
                                    });
  if (!folders_.empty() && !is_there) return false;
  return warm_up_ != WarmUp::kLeave || !IsOfWarmUp(entry);
}

const trees::TreeEntry* BatchTree::NextKept() {
  const trees::TreeEntry* entry = tree_.Next();
  while (entry != nullptr && !IsKept(*entry)) entry = tree_.Next();
  if (entry == nullptr) return nullptr;
  const bool is_as_token = warm_up_ == WarmUp::kAsToken && IsOfWarmUp(*entry);
  if (!called_.has_value() && !is_as_token) return entry;
  renamed_ = *entry;
  renamed_.key.token = called_.value_or(entry->key.token);
  if (is_as_token) renamed_.key.op.erase(0, trees::kAtbWarmUp.size() + 1);
  return &renamed_;
}

const trees::TreeEntry* BatchTree::NextLastOutput() {
  for (bool has_output = false;;) {
    if (!behind_.has_value()) {
      const trees::TreeEntry* const entry = NextKept();
      if (entry == nullptr) return has_output ? &last_output_ : nullptr;
      behind_ = *entry;
    }
    const TensorKey& key = behind_->key;
    if (has_output && (key.token != last_output_.key.token ||
                       key.op != last_output_.key.op)) {
      return &last_output_;
    }
    if (key.io == Io::kOutput) {
      last_output_ = *std::move(behind_);
      last_output_.key.call = 0;
      last_output_.key.index.assign(1, '0');
      has_output = true;
    }
    behind_.reset();
  }
}

const trees::TreeEntry* BatchTree::Next() {
  const trees::TreeEntry* entry = std::exchange(pending_, nullptr);
  if (entry == nullptr && !is_over_) {
    entry = keeps_last_outputs_ ? NextLastOutput() : NextKept();
  }
  is_over_ = entry == nullptr;
  if (!is_over_ && !IsBehind(*entry)) return Take(entry);
  pending_ = entry;
  if (led_ != nullptr) led_->Finish();
  return nullptr;
}

}  // namespace msitd::msit_command
