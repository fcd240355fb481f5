// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/markup_text.h"

#include "absl/strings/str_replace.h"

namespace msitd::ask {

std::string MarkupText(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace msitd::ask
