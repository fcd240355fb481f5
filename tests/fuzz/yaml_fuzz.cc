// SPDX-License-Identifier: Apache-2.0
// YAML files written by users.
#include <string>

#include "client/ask/text/yaml_text.h"
#include "protos/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  return {
      "golden.a: target.b\n# one\n'x: y': \"z\\n\\u00e4\"\n",
      "- {ms_api: A, pt_api: B, ms_args: [0, 1]}\n- ? k\n  : v\n-\n",
      "a:\n  b: |2-\n     text [\n  c: >\n    folded\n    text\n",
      "%YAML 1.2\n---\n[a, {b: c, d}, !t e, &f g, *f, null, ~, '']\n...\n",
  };
}

}  // namespace msitd::fuzz

namespace {

using msitd::ask::YamlValue;

// The search for each key of a large map is slow, so only this many keys are
// searched for.
constexpr size_t kFoundKeysMax = 100;

// Checks the value, and returns the number of values that it contains.
size_t Check(const YamlValue& value, size_t depth) {
  const bool is_map = value.kind == YamlValue::Kind::kMap;
  const bool is_list = value.kind == YamlValue::Kind::kList;
  MSITD_CHECK(depth <= msitd::ask::kYamlDepthMax);
  MSITD_CHECK(value.keys.size() == (is_map ? value.items.size() : 0));
  MSITD_CHECK(is_map || is_list || value.items.empty());
  MSITD_CHECK(value.text.empty() || value.kind == YamlValue::Kind::kScalar);
  size_t count = 1 + value.keys.size();
  const size_t inside = depth + (is_map || is_list ? 1 : 0);
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (is_map && i < kFoundKeysMax) {
      // The first item with a key is the one that is found.
      MSITD_CHECK(value.Find(value.keys[i]) == &value.items[i]);
    }
    count += Check(value.items[i], inside);
  }
  return count;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto value =
      msitd::ask::ReadYaml({reinterpret_cast<const char*>(data), size});
  if (!value.ok()) return 0;
  MSITD_CHECK(Check(*value, 0) <= msitd::ask::kYamlValuesMax + 1);
  return 0;
}
