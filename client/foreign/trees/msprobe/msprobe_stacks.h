// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_value.h"

namespace msitd::trees {

// The stacks of entries in stack.json, as current releases write it and as
// releases with a list of frames for each entry did. Thread-compatible.
class MsprobeStacks {
 public:
  enum class Form : uint8_t {
    // One frame per line, as `file:line function`.
    kLines,
    // The frames as they were written, as Python prints the list: with the
    // source line of each frame.
    kPythonList,
  };

  explicit MsprobeStacks(Form form = Form::kLines) : form_(form) {}

  // Adds the stacks of a file. Those before an error are kept. Returns
  // RESOURCE_EXHAUSTED beyond kMsprobeStacksBytesMax.
  absl::Status Read(const formats::ByteSource& file);

  // Returns the frames, innermost first; empty if there are none. Valid until
  // the next Read.
  std::string_view Find(std::string_view entry) const;

 private:
  absl::Status Add(const std::string& key, const JsonValue& value);
  absl::Status AddName(const std::string& name, size_t stack);
  absl::Status AddStack(const JsonValue& frames, size_t* stack);

  Form form_;
  std::vector<std::string> stacks_;
  // Most entries share their stack with others.
  std::map<std::string, size_t, std::less<>> by_text_;
  std::map<std::string, size_t, std::less<>> by_entry_;
  size_t bytes_ = 0;
};

}  // namespace msitd::trees
