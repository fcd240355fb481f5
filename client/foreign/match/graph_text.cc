// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/graph_text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <charconv>
#include <optional>
#include <utility>

#include "client/foreign/match/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

constexpr std::string_view kFxTensorName = "_fx_tensor_name";
constexpr std::string_view kOutputMark = ".OUTPUT.";

// Remembers the first error.
class Problem final : public google::protobuf::io::ErrorCollector {
 public:
  // Lines and columns are counted from 0.
  void AddError(int line, int /*column*/, const std::string& message) override {
    if (!status_.ok()) return;
    status_ = MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                         line + 1, message);
  }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

template <typename Number>
std::optional<Number> ToNumber(std::string_view text) {
  Number out{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return out;
}

// Parses `producer:index`. The name may contain colons.
GraphEdge ToEdge(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {.producer = std::string(text)};
  const auto output = ToNumber<int64_t>(text.substr(colon + 1));
  if (!output.has_value()) return {.producer = std::string(text)};
  return {.producer = std::string(text.substr(0, colon)), .output = *output};
}

FxTensor ToFxTensor(std::string_view text, size_t ge_output) {
  const size_t mark = text.rfind(kOutputMark);
  if (mark != std::string_view::npos) {
    const auto output =
        ToNumber<size_t>(text.substr(mark + kOutputMark.size()));
    if (output.has_value()) {
      return {ge_output, std::string(text.substr(0, mark)), *output};
    }
  }
  return {ge_output, std::string(text), ge_output};
}

// The message that contains a field, if it matters.
enum class Place { kGraph, kOp, kOutput, kAttribute, kValue, kOther };

Place PlaceOf(Place parent, std::string_view field) {
  if (parent == Place::kGraph && field == "op") return Place::kOp;
  if (parent == Place::kOp && field == "output_desc") return Place::kOutput;
  if (parent == Place::kOutput && field == "attr") return Place::kAttribute;
  if (parent == Place::kAttribute && field == "value") return Place::kValue;
  return Place::kOther;
}

class Parser {
 public:
  explicit Parser(std::string_view text)
      : stream_(text.data(), static_cast<int>(text.size())),
        tokenizer_(&stream_, &problem_) {
    tokenizer_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokenizer_.set_require_space_after_number(false);
    tokenizer_.set_allow_multiline_strings(true);
  }

  GraphText Parse() {
    tokenizer_.Next();
    while (!IsAt(Tokenizer::TYPE_END)) {
      if (!TakeField(Place::kGraph)) break;
    }
    return {std::move(graph_), problem_.status()};
  }

 private:
  bool IsAt(Tokenizer::TokenType type) {
    return tokenizer_.current().type == type;
  }
  bool IsAt(std::string_view symbol) {
    return IsAt(Tokenizer::TYPE_SYMBOL) && tokenizer_.current().text == symbol;
  }
  bool TakeIf(std::string_view symbol) {
    if (!IsAt(symbol)) return false;
    tokenizer_.Next();
    return true;
  }
  // Always returns false.
  bool Fail(const std::string& what) {
    problem_.AddError(tokenizer_.current().line, 0,
                      IsAt(Tokenizer::TYPE_END) ? "the text ends here" : what);
    return false;
  }

  bool TakeField(Place place);
  bool TakeName(std::string& name);
  bool TakeMessage(Place place, std::string_view field);
  bool TakeList(Place place, const std::string& field);
  bool TakeScalar(Place place, std::string_view field);
  void Open(Place place);
  void Close(Place place);
  void Set(Place place, std::string_view field, std::string value);

  Problem problem_;
  ArrayInputStream stream_;
  Tokenizer tokenizer_;
  size_t depth_ = 0;
  GeGraph graph_;
  // The op and the key that are being parsed.
  GraphOp op_;
  std::string key_;
  std::string value_;
};

// Parses a field and the separator that may follow it.
bool Parser::TakeField(Place place) {
  if (graph_.ops.size() == kGraphOpsMax) {
    return Fail("too many ops");
  }
  std::string name;
  if (!TakeName(name)) return false;
  const bool has_colon = TakeIf(":");
  bool is_taken = false;
  if (IsAt("{") || IsAt("<")) {
    is_taken = TakeMessage(place, name);
  } else if (!has_colon) {
    return Fail("a field has neither : nor {");
  } else if (IsAt("[")) {
    is_taken = TakeList(place, name);
  } else {
    is_taken = TakeScalar(place, name);
  }
  if (!is_taken) return false;
  if (!TakeIf(",")) TakeIf(";");
  return true;
}

bool Parser::TakeName(std::string& name) {
  if (TakeIf("[")) {  // An extension, or the type of an Any.
    while (!IsAt("]")) {
      if (IsAt(Tokenizer::TYPE_END)) return Fail("");
      tokenizer_.Next();
    }
    tokenizer_.Next();
    return true;
  }
  if (!IsAt(Tokenizer::TYPE_IDENTIFIER) && !IsAt(Tokenizer::TYPE_INTEGER)) {
    return Fail("not the name of a field");
  }
  name = tokenizer_.current().text;
  tokenizer_.Next();
  return true;
}

bool Parser::TakeMessage(Place place, std::string_view field) {
  if (++depth_ > kGraphDepthMax) return Fail("messages are nested too deep");
  const std::string_view end = IsAt("{") ? "}" : ">";
  tokenizer_.Next();
  const Place inner = PlaceOf(place, field);
  Open(inner);
  while (!IsAt(end)) {
    if (!TakeField(inner)) return false;
  }
  tokenizer_.Next();
  Close(inner);
  --depth_;
  return true;
}

bool Parser::TakeList(Place place, const std::string& field) {
  tokenizer_.Next();
  if (TakeIf("]")) return true;
  while (true) {
    const bool is_message = IsAt("{") || IsAt("<");
    if (is_message ? !TakeMessage(place, field) : !TakeScalar(place, field)) {
      return false;
    }
    if (TakeIf("]")) return true;
    if (!TakeIf(",")) return Fail("a list is not closed");
  }
}

bool Parser::TakeScalar(Place place, std::string_view field) {
  std::string value;
  if (IsAt(Tokenizer::TYPE_STRING)) {
    while (IsAt(Tokenizer::TYPE_STRING)) {
      Tokenizer::ParseStringAppend(tokenizer_.current().text, &value);
      tokenizer_.Next();
      // An unterminated string extends to the end of the text.
      if (!problem_.status().ok()) return false;
    }
    Set(place, field, std::move(value));
    return true;
  }
  TakeIf("-");
  if (!IsAt(Tokenizer::TYPE_IDENTIFIER) && !IsAt(Tokenizer::TYPE_INTEGER) &&
      !IsAt(Tokenizer::TYPE_FLOAT)) {
    return Fail("a field has no value");
  }
  tokenizer_.Next();
  return true;
}

void Parser::Open(Place place) {
  if (place == Place::kOp) op_ = {};
  if (place == Place::kAttribute) {
    key_.clear();
    value_.clear();
  }
}

void Parser::Close(Place place) {
  if (place == Place::kOp && !op_.name.empty()) graph_.Add(std::move(op_));
  if (place == Place::kOutput) ++op_.output_count;
  const bool is_named = place == Place::kAttribute && key_ == kFxTensorName &&
                        !value_.empty() &&
                        op_.fx_tensors.size() < kGraphEdgesMax;
  if (is_named) op_.fx_tensors.push_back(ToFxTensor(value_, op_.output_count));
}

void Parser::Set(Place place, std::string_view field, std::string value) {
  if (place == Place::kGraph && field == "name") {
    graph_.name = std::move(value);
  } else if (place == Place::kOp && field == "name") {
    op_.name = std::move(value);
  } else if (place == Place::kOp && field == "type") {
    op_.type = std::move(value);
  } else if (place == Place::kOp && field == "input") {
    if (op_.inputs.size() < kGraphEdgesMax) {
      op_.inputs.push_back(ToEdge(value));
    }
  } else if (place == Place::kAttribute && field == "key") {
    key_ = std::move(value);
  } else if (place == Place::kValue && field == "s") {
    value_ = std::move(value);
  }
}

}  // namespace

const GraphOp* GeGraph::Find(std::string_view op) const {
  const auto found = by_name.find(std::string(op));
  return found == by_name.end() ? nullptr : &ops[found->second];
}

void GeGraph::Add(GraphOp op) {
  if (by_name.emplace(op.name, ops.size()).second) {
    ops.push_back(std::move(op));
  }
}

GraphText ParseGraphText(std::string_view text) {
  if (text.size() > kFileBytesMax) {
    return {{},
            MakeStatus(absl::StatusCode::kResourceExhausted,
                       "{} bytes, more than {}", text.size(), kFileBytesMax)};
  }
  return Parser(text).Parse();
}

}  // namespace msitd::match
