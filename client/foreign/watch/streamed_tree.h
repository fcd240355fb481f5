// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/foreign/fill/import_job.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/watch/call_book.h"

namespace msitd::watch {

// Returns true for trees in which each file is an entry of its own, so that a
// reader can process a few of them at a time. A reader of any other tree
// requires all files.
bool ComesByFile(trees::TreeKind kind);

// The entries of a folder of which the reader has only a part: the files of one
// round, with calls numbered across rounds. Thread-compatible.
class StreamedTree final : public trees::Tree {
 public:
  struct Round {
    // As in TreeEntry::file.
    std::unordered_set<std::string> files;
    // Problems that were found without the reader.
    std::vector<trees::TreeProblem> problems;
    // For trees that are read as a whole. Returns true if the run has the file,
    // which may have been removed since.
    std::function<bool(const std::string& file)> is_imported = {};
    // Returns true if the documents of a token are final.
    std::function<bool(int64_t token)> takes_documents = {};
  };

  // Rules for all rounds.
  struct Rules {
    // Calls are those of the reader, because names of files specify them.
    bool keeps_calls = false;
    // The number of ranks of the run; 0 if it is not known. Entries of higher
    // ranks are problems.
    int32_t world_size = 0;
  };

  // Problems with files of other rounds. Each is reported once.
  using ToldProblems = std::unordered_set<uint64_t>;

  // Borrows everything except `tree`.
  StreamedTree(std::unique_ptr<trees::Tree> tree, Round& round,
               const fill::ImportOptions& options, const Rules& rules,
               CallBook& book, ToldProblems& told)
      : tree_(std::move(tree)),
        round_(round),
        options_(options),
        rules_(rules),
        book_(book),
        told_(told) {}

  trees::TreeKind kind() const override { return tree_->kind(); }
  std::vector<int32_t> ranks() const override { return tree_->ranks(); }
  int32_t world_size() const override { return tree_->world_size(); }
  const std::vector<trees::TreeAttachment>& attachments() const override {
    return tree_->attachments();
  }
  const trees::TreeEntry* Next() override;
  std::vector<trees::TreeProblem> TakeProblems() override;

 private:
  bool IsFinal(const trees::TreeEntry& entry) const;
  // Returns false, after adding a problem, if the run lacks the rank.
  bool HasRank(const trees::TreeEntry& entry);

  const std::unique_ptr<trees::Tree> tree_;
  Round& round_;
  const fill::ImportOptions& options_;
  const Rules rules_;
  CallBook& book_;
  ToldProblems& told_;
  trees::TreeEntry entry_;
};

}  // namespace msitd::watch
