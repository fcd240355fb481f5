// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/token_caches.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "daemon/requests/request_documents.h"
#include "protos/base/glob.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// The argument of newer versions of transformers.
constexpr std::string_view kArgumentOfCache = "cache";

// Arguments and results of attention, and buffers, that are caches in
// transformers and in engines.
constexpr std::string_view kNamesOfCaches[] = {
    "past_key_values", "past_key_value", "layer_past", "kv_cache",
    "k_cache",         "v_cache",        "key_cache",  "value_cache"};

bool IsInIndex(std::string_view index, std::string_view name) {
  return index.starts_with(name) &&
         (index.size() == name.size() || index[name.size()] == '.');
}

bool IsLastOf(std::string_view op, std::string_view name) {
  if (!op.ends_with(name)) return false;
  if (op.size() == name.size()) return true;
  const char before = op[op.size() - name.size() - 1];
  return before == '.' || before == '/';
}

std::string_view FirstOf(std::string_view index) {
  return index.substr(0, index.find('.'));
}

std::string_view LastOf(std::string_view op) {
  // npos + 1 is 0.
  return op.substr(op.find_last_of("./") + 1);
}

// The inputs of a module that is a cache are those of one forward.
bool MayBeNamedByOp(const TensorKey& key) {
  return key.io == Io::kOutput || key.io == Io::kState;
}

}  // namespace

bool HasNameOfCache(const TensorKey& key) {
  const auto is_name = [](std::string_view text) {
    return std::find(std::begin(kNamesOfCaches), std::end(kNamesOfCaches),
                     text) != std::end(kNamesOfCaches);
  };
  // None of the names has a separator.
  const std::string_view first = FirstOf(key.index);
  return first == kArgumentOfCache || is_name(first) ||
         (MayBeNamedByOp(key) && is_name(LastOf(key.op)));
}

absl::StatusOr<TokenCaches> TokenCaches::Read(storage::RunReader& run,
                                              const Selector& selector,
                                              storage::StopCheck stop) {
  TokenCaches out;
  AlignedBuffer buffer;
  std::optional<int32_t> rank;
  size_t count = 0;
  const auto visit =
      [&](const storage::TensorInfo& document) -> absl::StatusOr<bool> {
    if (rank.value_or(document.key.rank) != document.key.rank) return false;
    rank = document.key.rank;
    if (count++ == kCacheDocumentsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "run {} has more than {} documents of caches at token "
                        "{}",
                        run.name(), kCacheDocumentsMax, document.key.token);
    }
    MSITD_ASSIGN_OR_RETURN(const std::string text,
                           requests::ReadCacheText(run, document, buffer));
    out.Add(requests::CacheRequestIdOf(document), text);
    return true;
  };
  MSITD_RETURN_IF_ERROR(
      requests::VisitCacheDocuments(run, selector, stop, visit));
  return out;
}

absl::StatusOr<bool> TokenCaches::AnyIn(storage::RunReader& run,
                                        storage::StopCheck stop) {
  bool out = false;
  MSITD_RETURN_IF_ERROR(requests::VisitCacheDocuments(
      run, {}, stop, [&](const storage::TensorInfo&) -> absl::StatusOr<bool> {
        out = true;
        return false;
      }));
  return out;
}

void TokenCaches::Add(std::string_view id, std::string_view text) {
  for (const auto& [name, places] : SplitCacheText(text)) {
    caches_[std::string(name)].emplace(
        id, std::make_shared<const CachePlaces>(ParseCachePlaces(places)));
  }
}

TokenCaches::Places TokenCaches::PlacesOf(const TensorKey& key,
                                          std::string_view id) const {
  const ById* const cache = Find(key);
  if (cache == nullptr) return nullptr;
  const auto found = cache->find(id);
  return found == cache->end() ? nullptr : found->second;
}

const TokenCaches::ById* TokenCaches::Find(const TensorKey& key) const {
  const ById* out = nullptr;
  size_t longest = 0;
  for (const auto& [name, by_id] : caches_) {
    if (out != nullptr && name.size() <= longest) continue;
    const bool is_of_op = MayBeNamedByOp(key) &&
                          (IsLastOf(key.op, name) || GlobMatch(name, key.op));
    if (!is_of_op && !IsInIndex(key.index, name)) continue;
    out = &by_id;
    longest = name.size();
  }
  return out;
}

}  // namespace msitd::compare
