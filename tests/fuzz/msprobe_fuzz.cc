// SPDX-License-Identifier: Apache-2.0
// The name and the record of an entry of msprobe, in two lines. The key of a
// leaf can be converted back to the name of the leaf. A run accepts each record
// that can be parsed.
#include <string>
#include <string_view>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/json/json_reader.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/msprobe/msprobe_record.h"
#include "client/foreign/trees/msprobe/msprobe_stacks.h"
#include "protos/base/check.h"
#include "protos/base/tensor_statistics.h"
#include "protos/base/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  const std::string tensor =
      R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], )"
      R"("Max": 1.5, "Min": -Infinity, "Mean": NaN, "Norm": null, )"
      R"("requires_grad": true, "md5": "00c0ffee", "data_name": "x.pt"})";
  return {
      "Module.a.Linear.forward.1\n{\"input_args\": [" + tensor +
          ", [null, {\"type\": \"slice\", \"value\": [0, null, 2]}]], "
          "\"input_kwargs\": {\"mask\": " +
          tensor + "}, \"output\": [], \"parameters\": {\"weight\": " + tensor +
          "}}",
      "Functional.f.2.backward\n{\"input\": [" + tensor +
          "], \"output\": [null, {\"type\": \"torch.device\", \"value\": "
          "\"cuda:0\"}]}",
      "Module.a.Linear.parameters_grad.0\n{\"weight\": [" + tensor + "]}",
      "y.0.debug\n{\"a\": [" + tensor +
          ", {\"type\": \"str\", \"value\": \"x"
          "\"}, [], 1e5]}",
      "stacks\n{\"0\": [[\"a\", \"b\"], [\"File f, line 1, in g, \\n y\"]], "
      "\"c\": [\"x\"]}",
  };
}

}  // namespace msitd::fuzz

namespace msitd::trees {
namespace {

void CheckLeaf(const MsprobeLeaf& leaf) {
  MSITD_CHECK(IsValidUtf8(leaf.text));
  MSITD_CHECK(leaf.text.find('\0') == std::string::npos);
  if (leaf.kind == RecordKind::kStatistics) {
    MSITD_CHECK(IsValid(leaf.dtype));
    MSITD_CHECK(ParseTensorStatistics(leaf.text).has_value());
  }
  const auto key = KeyOfMsprobe(leaf.name);
  if (!key) return;
  // The first release writes the entry of parameters_grad without a count.
  const auto name = MsprobeNameOf(*key);
  MSITD_CHECK(name.has_value() && KeyOfMsprobe(*name) == key);
}

void Try(std::string_view input) {
  const size_t line = input.find('\n');
  if (line == std::string_view::npos) return;
  const formats::MemorySource bytes(std::string(input.substr(line + 1)));
  // Errors are for the caller to handle, so the result is ignored here.
  MsprobeStacks stacks;
  static_cast<void>(stacks.Read(bytes));
  MSITD_CHECK(stacks.Find("a").find('\0') == std::string_view::npos);
  JsonReader reader(bytes);
  const auto record = ReadJsonValue(reader);
  if (!record.ok()) return;
  for (const MsprobeLeaf& leaf :
       LeavesOfMsprobe(input.substr(0, line), *record).leaves) {
    CheckLeaf(leaf);
  }
}

}  // namespace
}  // namespace msitd::trees

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::trees::Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
