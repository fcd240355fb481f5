// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/wrong_modules.h"

#include <algorithm>
#include <utility>

namespace msitd::msitctl {

void WrongModules::See(const v1::ComparisonRow& row) {
  const bool is_result = row.io() == v1::IO_OUTPUT;
  if (row.verdict() == v1::SKIPPED && row.io() != v1::IO_INPUT) {
    ++skipped_count_;
    return;
  }
  const bool fails = row.verdict() == v1::FAIL;
  if (is_result) {
    compared_count_ += row.verdict() == v1::PASS || fails ? 1 : 0;
    unmatched_count_ += row.verdict() == v1::UNMATCHED ? 1 : 0;
    if (fails) ++failure_counts_[row.op()];
  }
  if (is_result ? !fails : row.verdict() == v1::PASS) return;

  const bool is_behind = !tokens_.empty() &&
                         !tokens_.rbegin()->second.failures.empty() &&
                         row.token() > tokens_.rbegin()->first;
  if (is_behind) return;
  Token& token = tokens_[row.token()];
  const Call call(row.op(), row.rank(), row.call());
  if (!is_result) {
    token.strange.insert(call);
    return;
  }
  const auto [at, is_new] =
      token.failures.try_emplace(call, Failure{row.sequence(), row.reason()});
  if (!is_new && row.sequence() < at->second.sequence) {
    at->second = {row.sequence(), row.reason()};
  }
  tokens_.erase(tokens_.upper_bound(row.token()), tokens_.end());
}

std::vector<WrongModules::Module> WrongModules::Innermost() const {
  return Find(/*is_strange=*/false);
}

std::vector<WrongModules::Module> WrongModules::Undecided() const {
  std::vector<Module> out = Find(/*is_strange=*/true);
  const std::vector<Module> wrong = Find(/*is_strange=*/false);
  std::erase_if(out, [&](const Module& module) {
    return std::ranges::any_of(wrong, [&](const Module& other) {
      return other.op == module.op || other.op.starts_with(module.op + ".");
    });
  });
  return out;
}

std::vector<WrongModules::Module> WrongModules::Find(bool is_strange) const {
  struct FoundModule {
    Module module;
    int64_t sequence = 0;
  };
  std::map<std::string, FoundModule> found;
  if (!tokens_.empty()) {
    const auto& [number, token] = *tokens_.rbegin();
    for (const auto& [call, failure] : token.failures) {
      if (token.strange.contains(call) != is_strange) continue;
      const auto& [op, rank, count] = call;
      const FoundModule one{
          {op, failure_counts_.at(op), number, count, failure.reason},
          failure.sequence};
      const auto [at, is_new] = found.try_emplace(op, one);
      if (!is_new && one.sequence < at->second.sequence) at->second = one;
    }
  }
  std::vector<FoundModule> innermost;
  for (const auto& [op, one] : found) {
    const auto inside = found.lower_bound(op + ".");
    const bool holds_one =
        inside != found.end() && inside->first.starts_with(op + ".");
    if (!holds_one) innermost.push_back(one);
  }
  std::ranges::stable_sort(innermost, {}, &FoundModule::sequence);
  std::vector<Module> out;
  for (FoundModule& one : innermost) out.push_back(std::move(one.module));
  return out;
}

}  // namespace msitd::msitctl
