// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/trees/tree_base.h"

namespace msitd::trees {

// A rank and a token of it.
struct TokenPlace {
  int32_t rank = 0;
  int64_t token = 0;

  friend auto operator<=>(const TokenPlace&, const TokenPlace&) = default;
};

// A tree in which each folder belongs to one token of one rank. Its folders are
// known from the beginning, the files of one token at a time.
class TokenTree : public TreeBase {
 public:
  const TreeEntry* Next() final;
  std::set<int64_t> tokens() const final;
  void KeepTokens(const std::set<int64_t>& tokens) final;

 protected:
  using TreeBase::TreeBase;

  // The folders of each token, which are numbers of the reader's own. Once.
  void SetFolders(std::map<TokenPlace, std::vector<size_t>> folders);

  // Forgets the items of the token before, lists the files of these folders,
  // and returns how many items there are, in the order of execution.
  virtual size_t ListToken(const TokenPlace& place,
                           const std::vector<size_t>& folders) = 0;

  // Fills `entry`, which is empty, with an item of the token, but for rank and
  // token. False if it is none: then the reason is a problem.
  virtual bool MakeEntry(size_t item, TreeEntry* entry) = 0;

 private:
  std::map<TokenPlace, std::vector<size_t>> folders_;
  // The token that is being read. The next one is the first of `folders_`.
  TokenPlace place_;
  size_t item_count_ = 0;
  size_t next_item_ = 0;
  TreeEntry entry_;
};

}  // namespace msitd::trees
