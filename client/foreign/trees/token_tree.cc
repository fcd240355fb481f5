// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/token_tree.h"

namespace msitd::trees {

void TokenTree::SetFolders(std::map<TokenPlace, std::vector<size_t>> folders) {
  folders_ = std::move(folders);
  std::vector<int32_t> ranks;
  for (const auto& [place, numbers] : folders_) {
    if (ranks.empty() || ranks.back() != place.rank) {
      ranks.push_back(place.rank);
    }
  }
  set_ranks(std::move(ranks));
}

std::set<int64_t> TokenTree::tokens() const {
  std::set<int64_t> out;
  for (const auto& [place, numbers] : folders_) out.insert(place.token);
  return out;
}

void TokenTree::KeepTokens(const std::set<int64_t>& tokens) {
  std::erase_if(folders_, [&tokens](const auto& folder) {
    return !tokens.contains(folder.first.token);
  });
}

const TreeEntry* TokenTree::Next() {
  for (;;) {
    while (next_item_ < item_count_) {
      entry_ = TreeEntry();
      if (!MakeEntry(next_item_++, &entry_)) continue;
      entry_.key.rank = place_.rank;
      entry_.key.token = place_.token;
      if (CheckKey(entry_.key, entry_.file)) return &entry_;
    }
    if (folders_.empty()) return nullptr;
    const auto first = folders_.begin();
    place_ = first->first;
    next_item_ = 0;
    item_count_ = ListToken(place_, first->second);
    folders_.erase(first);
  }
}

}  // namespace msitd::trees
