// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_problems.h"

#include <string_view>
#include <utility>

#include "protos/status/status.h"

namespace msitd::fill {
namespace {

// Reasons that differ only in their numbers count as one reason.
std::string WithoutNumbers(std::string_view reason) {
  std::string out;
  bool is_in_number = false;
  for (const char c : reason) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) out += c;
    if (is_digit && !is_in_number) out += 'N';
    is_in_number = is_digit;
  }
  return out;
}

}  // namespace

bool ImportProblems::MayPass(const absl::Status& reason) {
  switch (reason.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAlreadyExists:
      return false;
    default:
      return true;
  }
}

void ImportProblems::Add(std::string file, const absl::Status& reason) {
  std::string_view text = Message(reason);
  if (text.starts_with(file) && text.substr(file.size()).starts_with(": ")) {
    text.remove_prefix(file.size() + 2);
  }
  ++count_;
  may_pass_ = may_pass_ || MayPass(reason);
  std::string kind = WithoutNumbers(text);
  if (counts_.size() >= kReasonsMax && !counts_.contains(kind)) {
    kind = "other reasons";
  }
  ++counts_[std::move(kind)];
  if (listed_.size() < kListedMax) {
    listed_.push_back({std::move(file), std::string(text)});
  }
}

}  // namespace msitd::fill
