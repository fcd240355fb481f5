// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/foreign/fill/import_job.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/watch/call_book.h"

namespace msitd::watch {

// True for trees in which each file is an entry of its own, so that a reader
// can be shown a few of them at a time. Of other trees it has to see all.
bool ComesByFile(trees::TreeKind kind);

// What a reader says of a folder of which it is shown a part: the files of one
// round, with calls that count on from the rounds before. Thread-compatible.
class StreamedTree final : public trees::Tree {
 public:
  struct Round {
    // As TreeEntry::file has them.
    std::unordered_set<std::string> files;
    // What was found out without the reader.
    std::vector<trees::TreeProblem> problems;
  };

  // Of problems with files that are not of the round, each is told once.
  using ToldProblems = std::unordered_set<uint64_t>;

  // Borrows all but `tree`.
  StreamedTree(std::unique_ptr<trees::Tree> tree, Round& round,
               const fill::ImportOptions& options, CallBook& book,
               ToldProblems& told)
      : tree_(std::move(tree)),
        round_(round),
        options_(options),
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
  const std::unique_ptr<trees::Tree> tree_;
  Round& round_;
  const fill::ImportOptions& options_;
  CallBook& book_;
  ToldProblems& told_;
  trees::TreeEntry entry_;
};

}  // namespace msitd::watch
