// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Makes foreign text safe and fit for a terminal.
namespace msitd::ask {

// Returns `text` without anything that can move the cursor, ring the bell,
// reorder what is shown or end the line. Escapes such as `\n`, `\x1b` and
// `\u{202e}` replace control characters, invisible and bidirectional format
// characters, unassigned code points, and bytes that are not UTF-8.
std::string Printable(std::string_view text);

// Returns how many terminal columns `printable`, a result of Printable, takes:
// two for a wide East Asian character, none for a combining mark.
size_t DisplayWidth(std::string_view printable);

// Returns `printable` in at most `width` columns. If it does not fit, an
// ellipsis in the middle replaces a part of it, because op names differ at both
// ends.
std::string Shorten(std::string_view printable, size_t width);

// Returns `printable` in at most `width` columns. If it does not fit, it ends
// with an ellipsis.
std::string ShortenEnd(std::string_view printable, size_t width);

// Returns "512 B", "1.5 MiB", "20 GiB".
std::string HumanSize(int64_t size_bytes);

// Returns "0.25s", "42s", "3m07s", "2h00m05s", "3d01h".
std::string HumanDuration(double seconds);

// Returns `fields` as a line of CSV that ends with a line feed; a field is
// quoted if RFC 4180 asks for it. `guards_formulas`: by GuardFormula.
std::string CsvLine(const std::vector<std::string>& fields,
                    bool guards_formulas);

// Prefixes text that a spreadsheet would treat as a formula with an apostrophe:
// it begins with `=`, `+`, `-`, `@`, a tab or a carriage return, and is not a
// number.
std::string GuardFormula(std::string text);

}  // namespace msitd::ask
