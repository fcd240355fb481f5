// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/json_walk.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "client/foreign/formats/byte_iterator.h"

namespace msitd::formats {
namespace {

class Adapter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Adapter(JsonEvents& events) : events_(events) {}

  // The place of an error in the text, if there was one.
  std::optional<size_t> error_offset() const { return error_offset_; }

  bool start_object(size_t) override { return events_.Open(true); }
  bool start_array(size_t) override { return events_.Open(false); }
  bool end_object() override { return events_.CloseObject(); }
  bool end_array() override { return events_.CloseList(); }
  bool key(std::string& key) override { return events_.Key(key); }
  bool string(std::string& text) override { return events_.Text(text); }
  bool null() override { return events_.OtherValue(); }
  bool boolean(bool) override { return events_.OtherValue(); }
  bool number_integer(int64_t) override { return events_.OtherValue(); }
  bool number_unsigned(uint64_t) override { return events_.OtherValue(); }
  bool number_float(double, const std::string&) override {
    return events_.OtherValue();
  }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool parse_error(size_t offset, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_offset_ = offset;
    return false;
  }

 private:
  JsonEvents& events_;
  std::optional<size_t> error_offset_;
};

}  // namespace

absl::Status ParseJson(const ByteSource& bytes, const std::string& name,
                       JsonEvents& events) {
  Adapter adapter(events);
  if (nlohmann::json::sax_parse(ByteIterator(bytes), ByteIterator(),
                                &adapter)) {
    return absl::OkStatus();
  }
  if (!adapter.error_offset().has_value()) return events.status();
  if (*adapter.error_offset() >= bytes.size()) {
    return absl::DataLossError(name + ": it is truncated");
  }
  return absl::InvalidArgumentError(name + ": it is not valid JSON");
}

}  // namespace msitd::formats
