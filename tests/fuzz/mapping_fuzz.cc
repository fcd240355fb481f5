// SPDX-License-Identifier: Apache-2.0
// Mappings: attachments that define the pairs of a comparison.
#include "daemon/compare/match/mapping_parser.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/mapping_limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  const std::string whole = R"({"target":{"op":"T"},"golden":{"op":"g"}})";
  const std::string tensor =
      R"({"target":{"op":"T","io":"output","index":0,"call":3},)"
      R"("golden":{"op":"g","io":"grad_input","index":"1.0"},)"
      R"("reason":"fused \u00e9"})";
  return {"",
          whole,
          tensor + "\n",
          whole + "\r\n\n" + tensor,
          tensor + "\n" + tensor,
          R"({"golden":{"op":"g"}})"
          "\n" +
              tensor};
}

}  // namespace msitd::fuzz

namespace {

using msitd::compare::MappedPair;
using msitd::compare::TensorMapping;

absl::StatusOr<TensorMapping> Parse(std::string_view text, size_t piece_bytes) {
  msitd::compare::MappingParser parser;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_bytes);
    text.remove_prefix(piece.size());
    if (absl::Status status = parser.Append(piece); !status.ok()) return status;
  }
  return parser.Finish();
}

msitd::TensorKey KeyOf(const msitd::compare::MappedTensor& tensor) {
  msitd::TensorKey key;
  key.op = tensor.op;
  key.call = tensor.call.value_or(0);
  key.io = tensor.is_whole_op() ? msitd::Io::kOutput : tensor.io;
  key.index = tensor.index;
  return key;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto mapping = Parse(text, size + 1);
  // The result does not depend on how the bytes are split.
  MSITD_CHECK(Parse(text, 7).status() == mapping.status());
  if (!mapping.ok()) return 0;
  MSITD_CHECK(mapping->pair_count() > 0);
  for (size_t i = 0; i < mapping->pair_count(); ++i) {
    const MappedPair& pair = mapping->pair(i);
    MSITD_CHECK(!pair.target.op.empty() || !pair.golden.op.empty());
    for (const auto* tensor : {&pair.target, &pair.golden}) {
      MSITD_CHECK(tensor->op.size() <= msitd::kOpBytesMax);
      MSITD_CHECK(tensor->index.size() <= msitd::kIndexBytesMax);
    }
    MSITD_CHECK(pair.reason.size() <= msitd::kMappingReasonBytesMax);
    MSITD_CHECK(pair.golden.op.empty() ||
                mapping->FindGolden(KeyOf(pair.golden)).has_value());
    // A tensor of a pair of whole ops may also be in a more specific pair.
    if (pair.target.op.empty()) continue;
    const auto found = mapping->Find(KeyOf(pair.target));
    MSITD_CHECK(found.has_value());
    if (!pair.target.is_whole_op() && pair.target.call.has_value()) {
      MSITD_CHECK(*found == i);
    }
  }
  return 0;
}
