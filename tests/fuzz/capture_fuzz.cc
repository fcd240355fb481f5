// SPDX-License-Identifier: Apache-2.0
// Capture policies. A policy that can be decoded is encoded to the same bytes.
// It can be evaluated for any tensor, by the name of the op or by the rules
// that match the name.
#include "protos/base/check.h"
#include "protos/capture/capture_policy.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  capture::Rule rule;
  rule.level = capture::Level::kFull;
  rule.tensors.ranks = {0, 3};
  rule.tensors.devices = {"npu:0"};
  rule.tensors.tokens = {{0, 3}, {10, 10}};
  rule.tensors.op_patterns = {"layers.*.attn", "?*"};
  rule.tensors.ios = {Io::kInput, Io::kOutput};
  capture::Rule named = rule;
  named.tensors.requests = {"r1", "r2"};
  return {capture::Encode({{1, 0, {rule}}}),
          capture::Encode({{1, 0, {named, rule}}}),
          capture::Encode({{1, 0, {}}, {2, 500, {rule, capture::Rule()}}})};
}

}  // namespace msitd::fuzz

namespace msitd::capture {
namespace {

void Try(std::string_view bytes) {
  Policies policies;
  if (!Decode(bytes, policies)) return;
  Policies again;
  MSITD_CHECK(Decode(Encode(policies), again));
  MSITD_CHECK(again == policies);
  const Schedule schedule(policies, 3);
  for (const std::string_view op : {"layers.1.attn", ""}) {
    const RuleBits rules = schedule.RulesOf(op);
    for (const int64_t token : {0, 3, 10, 500}) {
      for (const Io io : {Io::kInput, Io::kUnspecified}) {
        for (const std::string_view id : {"r1", ""}) {
          const RuleBits named = schedule.RulesOfRequest(id);
          const bool may = schedule.MayRecord(token, op, io, named);
          MSITD_CHECK(may == schedule.MayRecord(token, rules, io, named));
          if (io == Io::kUnspecified) continue;
          const Level level = schedule.LevelOf("npu:0", token, op, io, named);
          MSITD_CHECK(level ==
                      schedule.LevelOf("npu:0", token, rules, io, named));
          MSITD_CHECK(level == Level::kOff || may);
        }
      }
    }
  }
}

}  // namespace
}  // namespace msitd::capture

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::capture::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
