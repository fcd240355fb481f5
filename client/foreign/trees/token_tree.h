// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/trees/tree_base.h"

namespace msitd::trees {

// A rank, and a token of it.
struct TokenPlace {
  int32_t rank = 0;
  int64_t token = 0;

  friend auto operator<=>(const TokenPlace&, const TokenPlace&) = default;
};

// A tree in which each folder belongs to one token of one rank. The folders are
// known from the beginning; files are listed one token at a time.
class TokenTree : public TreeBase {
 public:
  const TreeEntry* Next() final;
  std::set<int64_t> tokens() const final;
  void KeepTokens(const std::set<int64_t>& tokens) final;

 protected:
  using TreeBase::TreeBase;

  // Sets the folders of each token, as indexes that the reader assigns. Call it
  // once.
  void SetFolders(std::map<TokenPlace, std::vector<size_t>> folders);

  // Discards the items of the previous token, lists the files of these folders,
  // and returns the number of items, in the order of execution.
  virtual size_t ListToken(const TokenPlace& place,
                           const std::vector<size_t>& folders) = 0;

  // Fills `entry`, which is empty, with an item of the token, except for rank
  // and token. Returns false, and adds a problem, if the item is not valid.
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
