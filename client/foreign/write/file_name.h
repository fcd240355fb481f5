// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Creates names of files from foreign text. No name leaves its folder, is
// hidden, denotes a device on any system, or differs from another one only in
// case.
namespace msitd::write {

// The longest name, including the suffix that is added while the file is
// written.
inline constexpr size_t kFileNameBytesMax = 200;

// Returns one name that consists of `parts`, separated by commas, and
// `extension`, such as ".npy". ASCII letters and digits, `.`, `_` and `-` are
// kept; other bytes become `%` and two hexadecimal digits. If letters are upper
// case, `~` and a hexadecimal number follow, whose bits indicate these letters,
// starting with the lowest bit. A name longer than kFileNameBytesMax is
// truncated, and `~~` and the XXH3-128 of the full name follow.
std::string FileName(const std::vector<std::string_view>& parts,
                     std::string_view extension);

// Returns `name` if it can be the name of a file on Linux unchanged: it has no
// slash, is not `.` or `..`, is not longer than kFileNameBytesMax and is text
// without control characters. Otherwise returns the result of FileName.
std::string FileNameAsIs(std::string_view name, std::string_view extension);

}  // namespace msitd::write
