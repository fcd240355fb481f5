// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/base/request_rows.h"

// Documents that record where the positions of a request are in its caches.
//
// A cache of attention has keys or values of all positions so far. Its shape
// does not state which of its elements are filled, or to which request they
// belong. A static cache is as long as it may become, and a page may be one of
// any request. The documents are next to those of the rows (request.h), on
// the same device. The op is kCacheOpPrefix and the id of the request. The text
// has a line for each cache, which states the places of the positions 0, 1, 2,
// ... after the token:
//
//   text := LINE{\nLINE}
//   LINE := NAME = row N dims D,D: RANGES       a row with a column for each
//                                               position
//         | NAME = pages of S dims D,D: RANGES  pages that hold S positions
//         each | NAME = pages of 1 dims D: RANGES    the same for single
//         positions | NAME = unknown: REASON
//   RANGES := [RANGE{,RANGE}][+LEFT]
//
// - NAME is the name of a cache, without ` = `. The tensors to which it applies
//   are those of daemon/compare/request/token_caches.h.
// - N is an element of the first dimension in `dims`, and the ranges are
//   elements of the second one, in the order of the positions.
// - Pages are elements of the first dimension. The second one has the positions
//   of a page. Other dimensions belong to a position.
// - A range is a number, or `FIRST:END` as a Python slice. No element is there
//   twice.
// - LEFT is the number of further elements, which were left out.
// - REASON is why the places are not known, such as a sliding window.
//
// `cache = row 1 dims 0,2: 4:9` is row 1 of [b,n,L,d], in which positions 0 to
// 4 are columns 4 to 8. `kv_cache = pages of 16 dims 0,1: 3:5,9` is
// [pages,16,n,d], in which positions 0 to 15 are page 3, the next 16 are page
// 4, and then page 9.
namespace msitd {

inline constexpr std::string_view kCacheOpPrefix = "cache/";

// Longer texts are treated as absent, and lines with more ranges as unknown. A
// range may have any number of pages. Further lines are ignored.
inline constexpr size_t kCacheTextBytesMax = size_t{1} << 20;
inline constexpr size_t kCacheRangesMax = size_t{1} << 14;
inline constexpr size_t kCacheLinesMax = 256;
// Maximum number of positions of a page.
inline constexpr int64_t kCachePageMax = int64_t{1} << 20;

// The places of a request in a cache; a line of a document, without the name.
struct CachePlaces {
  // Positions of a page. 0 if the cache has a row with a column for each
  // position.
  int64_t page_size = 0;
  int64_t row = 0;
  // The dimension of rows or pages, and that of columns or of the positions of
  // a page. The latter is absent if pages are single positions.
  size_t outer_dim = 0;
  std::optional<size_t> inner_dim = {};
  // Columns or pages, in the order of the positions.
  std::vector<RowRange> ranges = {};
  uint64_t left_out = 0;
  // Why the places are not known. If set, nothing else is.
  std::string problem = {};

  // Returns the number of positions whose places are known.
  int64_t position_count() const;

  friend bool operator==(const CachePlaces&, const CachePlaces&) = default;
};

// Parses a line without its name. If it has another form, the result has this
// as its problem. The text is untrusted.
CachePlaces ParseCachePlaces(std::string_view text);

// Returns the name and the rest of each line of a document. Lines without a
// name are left out. The text is untrusted, and must outlive the result.
std::vector<std::pair<std::string_view, std::string_view>> SplitCacheText(
    std::string_view text);

}  // namespace msitd
