// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Blocks of consecutive rows of a comparison (docs/format/index.md). Rows are
// bytes that are not interpreted.
//
// Consecutive rows have the same fields and mostly the same bytes: names of
// metrics, the predicate, and most of the names of tensors. Numbers and hashes
// in between differ. A row is therefore stored as edits of the previous row,
// which takes about a third of its bytes. RocksDB would compress a block as
// well, but only after all bytes were written to its log, which has to be
// synced before a comparison ends. Comparing the rows in place is also faster
// than a compressor that searches all earlier bytes.
namespace msitd::storage {

// Maximum number of rows of a block.
inline constexpr size_t kRowsMax = 64;

// Encodes at most kRowsMax rows.
std::string EncodeRows(std::span<const std::string> rows);

// Decodes a block, also of an earlier version. Returns false if the bytes are
// not a block.
bool DecodeRows(std::string_view bytes, std::vector<std::string>& out);

}  // namespace msitd::storage
