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

// What a store holds of one side before it is compared and thrown away, but for
// a token that is larger.
inline constexpr uint64_t kTokenBatchBytes = uint64_t{4} << 30;

// A tree that comes in batches of whole tokens, and whose files are noted. It
// has one rank, unless all comes in one batch. Thread-compatible.
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
  // Null at the end of a batch.
  const trees::TreeEntry* Next() override;
  std::vector<trees::TreeProblem> TakeProblems() override {
    return tree_.TakeProblems();
  }

  // Begins the next batch, and forgets the files of the one before. It ends
  // behind `last_token`; if that is nothing, behind the token with which it has
  // kTokenBatchBytes.
  void BeginBatch(std::optional<int64_t> last_token);
  // The same for two sides that two threads read: a batch that tells `gate` its
  // tokens and ends by its size, and one that ends with that of the other side.
  // Borrows `gate` until the batch has ended.
  void LeadBatch(TokenGate& gate);
  void FollowBatch(TokenGate& gate);
  // True if there is no further batch.
  bool is_over() const { return is_over_; }
  // The token of the last entry; nothing if the batch had none.
  std::optional<int64_t> last_token() const { return token_; }

  // Passes over all files that lie in none of `folders`. Before the first
  // entry.
  void KeepFolders(const std::vector<std::string>& folders);
  // Notes which file a rank has of a tensor. Before the first entry.
  void TellRanksApart() { files_.TellRanksApart(); }
  // Gives all entries this token. Before the first entry.
  void CallToken(int64_t token) { called_ = token; }

  // What comes of the warm-up of the library: by its own names; nothing; or
  // under the names of the ops of a token.
  enum class WarmUp : uint8_t { kKeep, kLeave, kAsToken };
  // Before the first entry.
  void NameWarmUp(WarmUp how) { warm_up_ = how; }

  // Of each op keeps the last output alone, as output 0. Before the first
  // entry.
  void KeepLastOutputs() { keeps_last_outputs_ = true; }

  const FileIndex& files() const { return files_; }
  // Why a file could not be noted, or OK.
  const absl::Status& status() const { return status_; }

 private:
  // True for an entry of the next batch.
  bool IsBehind(const trees::TreeEntry& entry);
  // False if the other side says where the batch ends.
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
  // With a slash behind them; empty for all.
  std::vector<std::string> folders_;
  std::optional<int64_t> called_;
  WarmUp warm_up_ = WarmUp::kKeep;
  trees::TreeEntry renamed_;
  bool keeps_last_outputs_ = false;
  trees::TreeEntry last_output_;
  // The first entry behind those of its op.
  std::optional<trees::TreeEntry> behind_;
  uint64_t bytes_ = 0;
  bool is_over_ = false;
};

}  // namespace msitd::msit_command
