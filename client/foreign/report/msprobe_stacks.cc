// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/report/msprobe_stacks.h"

#include <fmt/format.h>

#include "protos/base/digits.h"

namespace msitd::report {
namespace {

// Converts `a.py:3 main` to `File a.py, line 3, in main`. Other frames are not
// changed.
std::string FrameText(std::string_view frame) {
  const size_t blank = frame.rfind(' ');
  if (blank == std::string_view::npos) return std::string(frame);
  const std::string_view place = frame.substr(0, blank);
  const size_t colon = place.rfind(':');
  const std::string_view line =
      colon == std::string_view::npos ? "" : place.substr(colon + 1);
  if (!IsDigits(line)) return std::string(frame);
  return fmt::format("File {}, line {}, in {}", place.substr(0, colon), line,
                     frame.substr(blank + 1));
}

}  // namespace

std::string PythonText(std::string_view text) {
  const bool has_quote = text.find('\'') != std::string_view::npos;
  const char quote =
      has_quote && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    out += c;
  }
  return out + quote;
}

std::string MsprobeStackTable::CallOf(const TensorKey& key) {
  const bool is_backward =
      key.io == Io::kGradInput || key.io == Io::kGradOutput;
  const char pass = key.io == Io::kGradWeight ? 'g' : is_backward ? 'b' : 'f';
  return fmt::format("{}/{}/{}/{}/{}", key.token, key.rank, pass, key.call,
                     key.op);
}

void MsprobeStackTable::Add(const v1::Tensor& tensor) {
  if (tensor.stack().empty()) return;
  TensorKey key;
  key.token = tensor.token();
  key.rank = tensor.rank();
  key.call = tensor.call();
  key.op = tensor.op();
  key.io = static_cast<Io>(tensor.io());
  std::string call = CallOf(key);
  if (by_call_.contains(call)) return;
  const auto known = by_text_.find(tensor.stack());
  const size_t more = known == by_text_.end() ? tensor.stack().size() : 0;
  if (by_call_.size() == kCallsMax || stack_bytes_ + more > kStackBytesMax) {
    ++left_out_count_;
    return;
  }
  uint32_t number = 0;
  if (known == by_text_.end()) {
    number = static_cast<uint32_t>(stacks_.size());
    stacks_.push_back(tensor.stack());
    by_text_.emplace(tensor.stack(), number);
    stack_bytes_ += more;
  } else {
    number = known->second;
  }
  by_call_.emplace(std::move(call), number);
}

std::string MsprobeStackTable::Find(const TensorKey& key) const {
  const auto found = by_call_.find(CallOf(key));
  if (found == by_call_.end()) return "";
  std::string out = "[";
  std::string_view rest = stacks_[found->second];
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (out.size() > 1) out += ", ";
    out += PythonText(FrameText(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out + "]";
}

}  // namespace msitd::report
