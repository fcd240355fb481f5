// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace msitd::web {

// A file of the page, which is part of the program.
struct PageFile {
  std::string_view target;  // `/main.js`
  std::string_view content_type;
  std::string_view text;
};

// Returns null if the page has no such file. Valid for the lifetime of the
// process.
const PageFile* FindPageFile(std::string_view target);

}  // namespace msitd::web
