// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msprobe/msprobe_stacks.h"

#include <algorithm>
#include <utility>

#include "client/foreign/trees/json/python_text.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

bool AreTexts(const JsonValue& value) {
  return value.IsArray() &&
         std::all_of(value.items.begin(), value.items.end(),
                     [](const JsonValue& item) { return item.IsString(); });
}

// Returns `x.py:3 f` for "File x.py, line 3, in f, \n y = 2". Joins the lines
// of any other text.
std::string FrameOf(std::string_view text) {
  constexpr std::string_view kFile = "File ";
  constexpr std::string_view kLine = ", line ";
  constexpr std::string_view kIn = ", in ";
  std::string out;
  const size_t line = text.find(kLine);
  const size_t in = text.find(kIn, line);
  if (text.starts_with(kFile) && line != text.npos && in != text.npos) {
    const size_t number = line + kLine.size();
    std::string_view function = text.substr(in + kIn.size());
    function = function.substr(0, function.find_first_of(",\n"));
    out.append(text.substr(kFile.size(), line - kFile.size())).append(":");
    out.append(text.substr(number, in - number)).append(" ").append(function);
  } else {
    out = text;
  }
  std::replace(out.begin(), out.end(), '\n', ' ');
  return WithoutNul(out);
}

}  // namespace

absl::Status MsprobeStacks::Read(const formats::ByteSource& file) {
  JsonReader reader(file);
  MSITD_ASSIGN_OR_RETURN(JsonToken token, reader.Next());
  if (token != JsonToken::kObjectBegin) {
    return absl::InvalidArgumentError("it is not an object");
  }
  for (;;) {
    MSITD_ASSIGN_OR_RETURN(token, reader.Next());
    if (token == JsonToken::kObjectEnd) return absl::OkStatus();
    const std::string key = reader.text();
    MSITD_ASSIGN_OR_RETURN(const JsonValue value, ReadJsonValue(reader));
    MSITD_RETURN_IF_ERROR(Add(key, value));
  }
}

absl::Status MsprobeStacks::Add(const std::string& key,
                                const JsonValue& value) {
  size_t stack = 0;
  const bool is_group = value.IsArray() && value.items.size() == 2 &&
                        AreTexts(value.items[0]) && AreTexts(value.items[1]);
  if (is_group) {
    MSITD_RETURN_IF_ERROR(AddStack(value.items[1], &stack));
    for (const JsonValue& name : value.items[0].items) {
      MSITD_RETURN_IF_ERROR(AddName(name.text, stack));
    }
    return absl::OkStatus();
  }
  if (!AreTexts(value)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} has no list of frames", ReprOfText(key));
  }
  MSITD_RETURN_IF_ERROR(AddStack(value, &stack));
  return AddName(key, stack);
}

absl::Status MsprobeStacks::AddName(const std::string& name, size_t stack) {
  bytes_ += name.size();
  if (bytes_ > kMsprobeStacksBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "stacks and their entries have more than {} bytes",
                      kMsprobeStacksBytesMax);
  }
  by_entry_[name] = stack;
  return absl::OkStatus();
}

absl::Status MsprobeStacks::AddStack(const JsonValue& frames, size_t* stack) {
  std::string text;
  if (form_ == Form::kPythonList) {
    text = ReprOfJson(frames);
  } else {
    for (const JsonValue& frame : frames.items) {
      if (!text.empty()) text += '\n';
      text += FrameOf(frame.text);
    }
  }
  const auto [place, is_new] = by_text_.try_emplace(text, stacks_.size());
  *stack = place->second;
  if (!is_new) return absl::OkStatus();
  bytes_ += 2 * text.size();
  stacks_.push_back(std::move(text));
  if (bytes_ <= kMsprobeStacksBytesMax) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "stacks and their entries have more than {} bytes",
                    kMsprobeStacksBytesMax);
}

std::string_view MsprobeStacks::Find(std::string_view entry) const {
  const auto place = by_entry_.find(entry);
  if (place == by_entry_.end()) return {};
  return stacks_[place->second];
}

}  // namespace msitd::trees
