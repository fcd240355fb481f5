// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/compare/file_index.h"
#include "client/msit/compare/token_gate.h"

namespace msitd::msit_command {

// The amount of data of one side that a store holds before it is compared and
// discarded, except for a token that is larger.
inline constexpr uint64_t kTokenBatchBytes = uint64_t{4} << 30;

// A tree that is read in batches of whole tokens, and whose files are indexed.
// It has one rank unless all of it is read in one batch. Thread-compatible.
class BatchTree final : public trees::Tree {
 public:
  // Borrows `tree`.
  explicit BatchTree(trees::Tree& tree) : tree_(tree) {}

  trees::TreeKind kind() const override { return tree_.kind(); }
  std::vector<int32_t> ranks() const override { return tree_.ranks(); }
  int32_t world_size() const override { return tree_.world_size(); }
  const std::vector<trees::TreeAttachment>& attachments() const override {
    return tree_.attachments();
  }
  std::set<int64_t> tokens() const override { return tree_.tokens(); }
  void KeepTokens(const std::set<int64_t>& tokens) override {
    tree_.KeepTokens(tokens);
  }
  // Returns null at the end of a batch.
  const trees::TreeEntry* Next() override;
  std::vector<trees::TreeProblem> TakeProblems() override {
    return tree_.TakeProblems();
  }

  // Begins the next batch, and forgets the files of the previous one. The batch
  // ends after `last_token` or, if that is not set, after the token with which
  // it reaches kTokenBatchBytes.
  void BeginBatch(std::optional<int64_t> last_token);
  // The same for two sides that two threads read. LeadBatch reports its tokens
  // to `gate` and ends by its size; FollowBatch ends with the batch of the
  // other side. Borrows `gate` until the batch has ended.
  void LeadBatch(TokenGate& gate);
  void FollowBatch(TokenGate& gate);
  // Returns true if there is no further batch.
  bool is_over() const { return is_over_; }
  // The token of the last entry; nothing if the batch had none.
  std::optional<int64_t> last_token() const { return token_; }

  // Ignores all files outside of `folders`. Call it before the first entry.
  void KeepFolders(const std::vector<std::string>& folders);
  // Indexes the file of a tensor for each rank separately. Call it before the
  // first entry.
  void TellRanksApart() { files_.TellRanksApart(); }
  // Gives this token to all entries. Call it before the first entry.
  void CallToken(int64_t token) { called_ = token; }

  // How to treat the warm-up of the library: keep it under its own names, omit
  // it, or use the names of the ops of a token.
  enum class WarmUp : uint8_t { kKeep, kLeave, kAsToken };
  // Call it before the first entry.
  void NameWarmUp(WarmUp how) { warm_up_ = how; }

  // Keeps only the last output of each op, as output 0. Call it before the
  // first entry.
  void KeepLastOutputs() { keeps_last_outputs_ = true; }

  const FileIndex& files() const { return files_; }
  // Why a file could not be indexed, or OK.
  const absl::Status& status() const { return status_; }

 private:
  // Returns true for an entry of the next batch.
  bool IsBehind(const trees::TreeEntry& entry);
  // Returns false if the other side determines the end of the batch.
  bool IsLimitedBySize() const;
  const trees::TreeEntry* Take(const trees::TreeEntry* entry);
  const trees::TreeEntry* NextKept();
  bool IsKept(const trees::TreeEntry& entry) const;
  const trees::TreeEntry* NextLastOutput();

  trees::Tree& tree_;
  FileIndex files_;
  absl::Status status_;
  // The first entry of the next batch.
  const trees::TreeEntry* pending_ = nullptr;
  std::optional<int64_t> token_;
  std::optional<int64_t> token_max_;
  TokenGate* led_ = nullptr;
  TokenGate* followed_ = nullptr;
  // Each with a trailing slash. Empty for all folders.
  std::vector<std::string> folders_;
  std::optional<int64_t> called_;
  WarmUp warm_up_ = WarmUp::kKeep;
  trees::TreeEntry renamed_;
  bool keeps_last_outputs_ = false;
  trees::TreeEntry last_output_;
  // The first entry after those of its op.
  std::optional<trees::TreeEntry> behind_;
  uint64_t bytes_ = 0;
  bool is_over_ = false;
};

}  // namespace msitd::msit_command
