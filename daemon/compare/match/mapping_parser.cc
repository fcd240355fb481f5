// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/mapping_parser.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "daemon/compare/view/view_parser.h"
#include "msitd/v1/mapping.pb.h"
#include "protos/base/limits.h"
#include "protos/base/mapping_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format,
                    std::forward<Args>(args)...);
}

bool HasNul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

absl::StatusOr<std::string> ToIndex(const google::protobuf::Value& value) {
  using Value = google::protobuf::Value;
  if (value.kind_case() == Value::kStringValue) {
    const std::string& text = value.string_value();
    if (text.size() > kIndexBytesMax || HasNul(text)) {
      return Invalid("index: needs at most {} bytes without NUL",
                     kIndexBytesMax);
    }
    return text;
  }
  const double number = value.number_value();
  if (value.kind_case() != Value::kNumberValue ||
      !(number >= 0 && number <= std::numeric_limits<int32_t>::max()) ||
      number != std::floor(number)) {
    return Invalid("index: is neither a whole number nor a text");
  }
  return std::to_string(static_cast<int32_t>(number));
}

absl::StatusOr<MappedTensor> ToTensor(const v1::TensorReference& reference) {
  MappedTensor out;
  if (reference.op().empty()) return Invalid("op: is empty");
  if (reference.op().size() > kOpBytesMax || HasNul(reference.op())) {
    return Invalid("op: needs at most {} bytes without NUL", kOpBytesMax);
  }
  out.op = reference.op();
  if (reference.has_call()) {
    if (reference.call() < 0 || reference.call() > kCallMax) {
      return Invalid("call: {} is not from 0 to {}", reference.call(),
                     kCallMax);
    }
    out.call = reference.call();
  }
  if (reference.io().empty() != !reference.has_index()) {
    return Invalid("io and index: one without the other");
  }
  if (!reference.has_index()) return out;
  const std::optional<Io> io = ParseIo(reference.io());
  if (!io.has_value() || !IsValid(*io)) {
    return Invalid("io: \"{}\" is none", reference.io());
  }
  out.io = *io;
  MSITD_ASSIGN_OR_RETURN(out.index, ToIndex(reference.index()));
  return out;
}

absl::StatusOr<std::string> ToView(const std::string& text,
                                   std::string_view field) {
  if (text.empty()) return text;
  const auto steps = ParseView(text);
  if (!steps.ok()) return Annotate(steps.status(), field);
  return text;
}

absl::StatusOr<MappedPair> ToPair(std::string_view line) {
  if (!IsValidUtf8(line)) return Invalid("is not UTF-8");
  v1::MappingLine message;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(line.data(), line.size()), &message);
  if (!parsed.ok()) {
    // Further lines of the message quote the text.
    const std::string_view why(parsed.message().data(),
                               parsed.message().size());
    return Invalid("is not the JSON of a pair: {}",
                   why.substr(0, why.find('\n')));
  }
  MappedPair out;
  if (!message.has_target() && !message.has_golden()) {
    return Invalid("has neither a target nor a golden tensor");
  }
  if (message.has_target()) {
    auto target = ToTensor(message.target());
    if (!target.ok()) return Annotate(target.status(), "target");
    out.target = *std::move(target);
  }
  if (message.has_golden()) {
    auto golden = ToTensor(message.golden());
    if (!golden.ok()) return Annotate(golden.status(), "golden");
    out.golden = *std::move(golden);
  }
  MSITD_ASSIGN_OR_RETURN(out.target_view,
                         ToView(message.target_view(), "target_view"));
  MSITD_ASSIGN_OR_RETURN(out.golden_view,
                         ToView(message.golden_view(), "golden_view"));
  if (message.reason().size() > kMappingReasonBytesMax) {
    return Invalid("reason: {} bytes, at most {}", message.reason().size(),
                   kMappingReasonBytesMax);
  }
  out.reason =
      message.reason().empty() ? std::string(kByTheMapping) : message.reason();
  return out;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

absl::Status MappingParser::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > kMappingLineBytesMax) {
      return Invalid("line {}: more than {} bytes", line_count_ + 1,
                     kMappingLineBytesMax);
    }
    if (end == std::string_view::npos) {
      line_ += part;
      return absl::OkStatus();
    }
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      MSITD_RETURN_IF_ERROR(TakeLine(part));
      continue;
    }
    line_ += part;
    MSITD_RETURN_IF_ERROR(TakeLine(line_));
    line_.clear();
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorMapping> MappingParser::Finish() {
  MSITD_RETURN_IF_ERROR(TakeLine(line_));
  if (mapping_.pair_count() == 0) return Invalid("has no pair");
  return std::move(mapping_);
}

absl::Status MappingParser::TakeLine(std::string_view line) {
  ++line_count_;
  if (IsBlank(line)) return absl::OkStatus();
  const auto annotated = [this](const absl::Status& status) {
    return Annotate(status, fmt::format("line {}", line_count_));
  };
  auto pair = ToPair(line);
  if (!pair.ok()) return annotated(pair.status());
  pair->line = line_count_;
  return annotated(mapping_.Add(*std::move(pair)));
}

}  // namespace msitd::compare
