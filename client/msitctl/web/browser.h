// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace msitd::msitctl {

// Opens an address in the browser of the user. Other users can see the
// arguments of programs, and the address contains a secret. Therefore the
// browser opens a file that only the user can read, and that leads to the
// address. Thread-compatible.
class BrowserPage {
 public:
  // Writes the file and starts `xdg-open`, without waiting for it. Returns an
  // error of the system if either fails.
  static absl::StatusOr<BrowserPage> Open(const std::string& url);

  BrowserPage(BrowserPage&& other) noexcept;
  BrowserPage& operator=(BrowserPage&&) = delete;
  // Removes the file.
  ~BrowserPage();

 private:
  explicit BrowserPage(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace msitd::msitctl
