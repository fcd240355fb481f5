// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/trees/tree.h"
#include "client/foreign/trees/tree_folder.h"

namespace msitd::trees {

// The state that all readers of trees have in common.
class TreeBase : public Tree {
 public:
  TreeKind kind() const final { return kind_; }
  std::vector<int32_t> ranks() const final { return ranks_; }
  int32_t world_size() const final { return world_size_; }
  const std::vector<TreeAttachment>& attachments() const final {
    return attachments_;
  }
  bool has_known_order() const final { return has_known_order_; }
  LeftOutFiles left_out() const final { return root_.left_out(); }
  std::vector<TreeProblem> TakeProblems() final;

 protected:
  TreeBase(TreeKind kind, const TreeFolder& root) : kind_(kind), root_(root) {}

  const TreeFolder& root() const { return root_; }

  // Before the tree is open.
  void set_has_known_order(bool has) { has_known_order_ = has; }
  // Ascending.
  void set_ranks(std::vector<int32_t> ranks) { ranks_ = std::move(ranks); }
  // Sets the world size that `folder` specifies; 0 if it specifies none. Adds a
  // problem if another folder specifies a different size.
  void TakeWorldSize(int32_t size, const std::string& folder);
  // Adds a problem if the run cannot have an attachment with this name, or
  // already has one.
  void AddAttachment(TreeAttachment attachment);

  void AddProblem(std::string file, absl::Status reason);
  void AddProblems(std::vector<TreeProblem> problems);
  // Adds a problem for the file or folder at `relative`: it is not a dump.
  void Refuse(const std::string& relative, std::string_view why);

  // Returns true if a run can have `key`. Otherwise adds a problem.
  bool CheckKey(const TensorKey& key, const std::string& file);

 private:
  const TreeKind kind_;
  const TreeFolder root_;
  bool has_known_order_ = true;
  std::vector<int32_t> ranks_;
  int32_t world_size_ = 0;
  bool has_folder_ = false;
  std::vector<TreeAttachment> attachments_;
  std::vector<TreeProblem> problems_;
  // Problems beyond the limit.
  size_t problems_left_out_ = 0;
};

// Returns INVALID_ARGUMENT unless a run can have a record with this key.
absl::Status CheckTensorKey(const TensorKey& key);

}  // namespace msitd::trees
