// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/match/json_text.h"

#include <nlohmann/json.hpp>

#include "client/foreign/match/limits.h"
#include "protos/status/status.h"

namespace msitd::match {
namespace {

using Json = nlohmann::json;

// Determines the size of the tree of a text before the tree is created.
class Bounds final : public nlohmann::json_sax<Json> {
 public:
  bool is_beyond() const { return is_beyond_; }

  bool start_object(size_t /*size*/) override { return Enter(); }
  bool start_array(size_t /*size*/) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool null() override { return Count(); }
  bool boolean(bool /*value*/) override { return Count(); }
  bool number_integer(number_integer_t /*value*/) override { return Count(); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return Count(); }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return Count();
  }
  bool string(string_t& /*value*/) override { return Count(); }
  bool binary(binary_t& /*value*/) override { return Count(); }
  bool key(string_t& /*value*/) override { return true; }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool Count() {
    is_beyond_ = ++count_ > kJsonValuesMax || depth_ > kJsonDepthMax;
    return !is_beyond_;
  }
  bool Enter() {
    ++depth_;
    return Count();
  }
  bool Leave() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  size_t count_ = 0;
  bool is_beyond_ = false;
};

}  // namespace

absl::Status CheckJson(std::string_view file, std::string_view text) {
  Bounds bounds;
  if (Json::sax_parse(text.begin(), text.end(), &bounds)) {
    return absl::OkStatus();
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument, "{}: {}", file,
                    bounds.is_beyond() ? "has too many values or levels"
                                       : "is not valid JSON");
}

}  // namespace msitd::match
