// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <streambuf>
#include <utility>

#include "client/foreign/names/msprobe_names.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

using Json = nlohmann::json;
using names::MsprobeEntry;
using names::MsprobePart;

// Nesting depth of objects and lists. msprobe itself stops at 400.
constexpr size_t kDepthMax = 512;
constexpr size_t kPieceBytes = size_t{64} << 10;

// Early releases write this if nothing was saved.
constexpr std::string_view kNoFile = "-1";

// Passes on JSON as Python writes it, with NaN and Infinity replaced by 0.
class PlainNumbers final : public std::streambuf {
 public:
  explicit PlainNumbers(std::istream& in) : in_(in) {}

 private:
  int_type underflow() override {
    in_.read(piece_.data(), static_cast<std::streamsize>(piece_.size()));
    const std::streamsize count = in_.gcount();
    if (count == 0) return traits_type::eof();
    setg(piece_.data(), piece_.data(), piece_.data() + count);
    for (char* c = gptr(); c != egptr(); ++c) Replace(*c);
    return traits_type::to_int_type(*gptr());
  }

  void Replace(char& c) {
    if (is_text_) {
      is_text_ = c != '"' || is_escaped_;
      is_escaped_ = c == '\\' && !is_escaped_;
      return;
    }
    is_text_ = c == '"';
    const bool is_lower = c >= 'a' && c <= 'z';
    if (c == 'N' || c == 'I') {
      c = is_word_ ? ' ' : '0';
      is_word_ = true;
    } else if (is_word_ && is_lower) {
      c = ' ';
    } else {
      is_word_ = false;
    }
  }

  std::istream& in_;
  std::array<char, kPieceBytes> piece_;
  bool is_text_ = false;
  bool is_escaped_ = false;
  bool is_word_ = false;
};

std::optional<MsprobePart> PartNamed(std::string_view name) {
  if (name == "input_args" || name == "input") return MsprobePart::kInput;
  if (name == "input_kwargs") return MsprobePart::kKwargs;
  if (name == "output") return MsprobePart::kOutput;
  if (name == "parameters") return MsprobePart::kParameters;
  return std::nullopt;
}

class Handler final : public nlohmann::json_sax<Json> {
 public:
  Handler(size_t tensors_max, MsprobeFiles& files)
      : tensors_max_(tensors_max), files_(files) {}

  const absl::Status& status() const { return status_; }

  bool null() override { return Item(); }
  bool boolean(bool /*value*/) override { return Item(); }
  bool number_integer(int64_t /*value*/) override { return Item(); }
  bool number_unsigned(uint64_t /*value*/) override { return Item(); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return Item();
  }
  bool binary(Json::binary_t& /*value*/) override { return false; }

  bool string(std::string& text) override {
    Item();
    if (open_.empty() || open_.back().is_list) return true;
    OpenValue& place = open_.back();
    if (place.key == "type") place.has_type = true;
    if (place.key == "data_name") place.file = text == kNoFile ? "" : text;
    return true;
  }

  bool key(std::string& text) override {
    OpenValue& place = open_.back();
    if (text == "dtype") place.has_dtype = true;
    if (text == "shape") place.has_shape = true;
    // Readers would disagree about the name to use.
    if (text == "data_name" && !place.file.empty()) return Refuse("two names");
    place.key = std::move(text);
    return true;
  }

  bool start_object(size_t /*size*/) override { return Open(false); }
  bool start_array(size_t /*size*/) override { return Open(true); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool end_object() override {
    const OpenValue place = std::move(open_.back());
    open_.pop_back();
    const bool is_tensor = place.has_type && place.has_dtype && place.has_shape;
    const bool is_in_data = open_.size() >= 2 && open_[0].key == "data";
    if (!is_in_data || (!is_tensor && place.file.empty())) return true;
    const auto name = is_tensor ? NameOfPlace() : std::nullopt;
    if (!name) {
      return place.file.empty() || Refuse("a file without a tensor");
    }
    if (files_.size() == tensors_max_) {
      status_ = MakeStatus(absl::StatusCode::kResourceExhausted,
                           "it has more than {} tensors", tensors_max_);
      return false;
    }
    return files_.emplace(*name, place.file).second || Refuse("two tensors");
  }

  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Refuse("it is not valid JSON");
  }

 private:
  // An open object or list.
  struct OpenValue {
    bool is_list = false;
    std::string key;  // The key of the last item in it.
    size_t count = 0;
    bool has_type = false;
    bool has_dtype = false;
    bool has_shape = false;
    std::string file;
  };

  bool Refuse(std::string_view why) {
    status_ = MakeStatus(absl::StatusCode::kInvalidArgument, "{}", why);
    return false;
  }

  bool Item() {
    if (open_.empty() || !open_.back().is_list) return true;
    open_.back().key = std::to_string(open_.back().count++);
    return true;
  }

  bool Open(bool is_list) {
    if (open_.size() == kDepthMax) return Refuse("nested too deep");
    Item();
    open_.emplace_back().is_list = is_list;
    return true;
  }

  // Returns the name in msitd of the tensor under the keys of all open objects.
  std::optional<std::string> NameOfPlace() const {
    names::MsprobeName name;
    name.entry = open_[1].key;
    const auto kind = names::MsprobeEntryOf(name.entry);
    if (!kind) return std::nullopt;
    size_t next = 2;
    name.part = MsprobePart::kWhole;
    if (*kind == MsprobeEntry::kForward || *kind == MsprobeEntry::kBackward) {
      if (open_.size() == next) return std::nullopt;
      const auto part = PartNamed(open_[next++].key);
      if (!part) return std::nullopt;
      name.part = *part;
    }
    for (; next < open_.size(); ++next) {
      // The gradients of a parameter are a list of one.
      const bool is_gradient =
          *kind == MsprobeEntry::kGradients && next == 3 && open_[3].is_list;
      if (is_gradient && open_[3].key == "0") continue;
      if (!name.keys.empty()) name.keys += '.';
      name.keys += open_[next].key;
    }
    const auto key = names::KeyOfMsprobe(name);
    const auto ours = key ? names::MsprobeNameOf(*key) : std::nullopt;
    if (!ours) return std::nullopt;
    return names::MsprobeFileName(*ours);
  }

  const size_t tensors_max_;
  MsprobeFiles& files_;
  std::vector<OpenValue> open_;
  absl::Status status_;
};

}  // namespace

absl::Status AddMsprobeFiles(std::istream& document, size_t tensors_max,
                             MsprobeFiles& files) {
  PlainNumbers numbers(document);
  std::istream plain(&numbers);
  Handler handler(tensors_max, files);
  const bool is_read = Json::sax_parse(plain, &handler);
  if (is_read || !handler.status().ok()) return handler.status();
  return absl::InvalidArgumentError("it cannot be read");
}

bool HasPythonNumbers(std::istream& document) {
  bool is_text = false;
  bool is_escaped = false;
  for (int c = document.get(); c != std::istream::traits_type::eof();
       c = document.get()) {
    if (!is_text && (c == 'N' || c == 'I')) return true;
    if (c == '"' && !is_escaped) is_text = !is_text;
    is_escaped = c == '\\' && !is_escaped;
  }
  return false;
}

bool FilesFit(MsprobeFiles files, const std::vector<MsprobeRow>& rows) {
  for (const MsprobeRow& row : rows) {
    const bool is_tensor =
        row.kind == RecordKind::kTensor || row.kind == RecordKind::kStatistics;
    if (!is_tensor) continue;
    const auto found = files.find(names::MsprobeFileName(row.name));
    if (found == files.end() || found->second != row.file) return false;
    files.erase(found);
  }
  return std::all_of(files.begin(), files.end(),
                     [](const auto& one) { return one.second.empty(); });
}

}  // namespace msitd::write
