// SPDX-License-Identifier: Apache-2.0
// JSON written by Python. Our reader accepts all JSON that another reader
// accepts, and returns the same tokens. Accepted JSON stays within the limits
// of our reader.
#include <nlohmann/json.hpp>
#include <string>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_limits.h"
#include "client/foreign/trees/json/json_reader.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/json/python_text.h"
#include "protos/base/check.h"
#include "protos/base/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {

std::vector<std::string> Seeds() {
  return {
      R"({"task": "tensor", "dump_data_dir": null, "data": {"a.0.forward": )"
      R"({"input_args": [{"Max": NaN, "Min": -Infinity, "Mean": 1e-05, )"
      R"("Norm": 0.10, "shape": [2, 3], "requires_grad": true}, null], )"
      R"("input_kwargs": {}}}})",
      R"({"0": [["a", "b"], ["File x.py, line 1, in f, \n y = 2"]]})",
      R"(["\u00e4\ud83d\ude00\ud800\\", -0.0, 9223372036854775808, "", [[[]]]])",
      "[Infinity, -Infinity, NaN, 1E+2, false]",
  };
}

}  // namespace msitd::fuzz

namespace msitd::trees {
namespace {

using Json = nlohmann::json;

// Reads the input with our reader while the other reader parses it.
class Follower final : public nlohmann::json_sax<Json> {
 public:
  explicit Follower(const std::string& json) : bytes_(json), reader_(bytes_) {}

  bool null() override { return Expect(JsonToken::kNull); }
  bool boolean(bool value) override {
    return Expect(value ? JsonToken::kTrue : JsonToken::kFalse);
  }
  bool number_integer(int64_t) override { return Expect(JsonToken::kNumber); }
  bool number_unsigned(uint64_t) override { return Expect(JsonToken::kNumber); }
  bool number_float(double, const std::string& text) override {
    return Expect(JsonToken::kNumber, &text);
  }
  bool string(std::string& text) override {
    return Expect(JsonToken::kString, &text);
  }
  bool key(std::string& text) override {
    return Expect(JsonToken::kKey, &text);
  }
  bool start_object(size_t) override { return Expect(JsonToken::kObjectBegin); }
  bool end_object() override { return Expect(JsonToken::kObjectEnd); }
  bool start_array(size_t) override { return Expect(JsonToken::kArrayBegin); }
  bool end_array() override { return Expect(JsonToken::kArrayEnd); }
  bool binary(Json::binary_t&) override { return false; }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

  bool Expect(JsonToken token, const std::string* text = nullptr) {
    const auto mine = reader_.Next();
    if (mine.status().code() == absl::StatusCode::kResourceExhausted) {
      return false;
    }
    MSITD_CHECK(mine.ok() && *mine == token);
    MSITD_CHECK(text == nullptr || *text == reader_.text());
    return true;
  }

 private:
  const formats::MemorySource bytes_;
  JsonReader reader_;
};

void TryValue(const std::string& json) {
  const formats::MemorySource bytes(json);
  JsonReader reader(bytes);
  const auto value = ReadJsonValue(reader);
  if (!value.ok()) {
    MSITD_CHECK(!reader.LeaveTo(0).ok() || reader.depth() == 0);
    return;
  }
  MSITD_CHECK(reader.depth() == 0);
  MSITD_CHECK(IsValidUtf8(ReprOfJson(*value)));
  const std::string text = DescribeJson(*value).text;
  MSITD_CHECK(text.find('\0') == std::string::npos);
}

}  // namespace
}  // namespace msitd::trees

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  msitd::trees::TryValue(json);
  // The other reader accepts a byte order mark, and treats NUL as the end.
  if (json.starts_with("\xef\xbb\xbf") ||
      json.find('\0') != std::string::npos || !nlohmann::json::accept(json)) {
    return 0;
  }
  msitd::trees::Follower follower(json);
  if (nlohmann::json::sax_parse(json, &follower)) {
    MSITD_CHECK(follower.Expect(msitd::trees::JsonToken::kEnd));
  }
  return 0;
}
