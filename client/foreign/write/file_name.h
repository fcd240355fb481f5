// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Names of files made of foreign text. No name leaves its folder, is hidden,
// means a device on some system, or differs from another one in case alone.
namespace msitd::write {

// Longest name, with what is added to it while the file is written.
inline constexpr size_t kFileNameBytesMax = 200;

// Makes one name of `parts` and `extension`, such as ".npy": the parts with a
// comma between them. Of a part stay the letters and digits of ASCII, `.`, `_`
// and `-`; other bytes become `%` and two hexadecimal digits. If letters are
// upper case, `~` and a hexadecimal number follow, whose bits say which ones,
// the first letter being the lowest bit. A name over kFileNameBytesMax is cut,
// and `~~` and the XXH3-128 of what it would be follow.
std::string FileName(const std::vector<std::string_view>& parts,
                     std::string_view extension);

// True for a name that FileName has cut, so that it does not say its parts.
bool IsCut(std::string_view file_name);

// Returns `name` if it can be the name of a file on Linux as it is: it has no
// slash, is not `.` or `..`, is no longer than kFileNameBytesMax and is text
// without control characters. Otherwise as FileName makes it.
std::string FileNameAsIs(std::string_view name, std::string_view extension);

}  // namespace msitd::write
