// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/polygraphy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/formats/byte_iterator.h"
#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/npy_file.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kClassKey = "polygraphy_class";
constexpr std::string_view kOldClassKey = "__polygraphy_encoded_";
// The magic of .npy in base64.
constexpr std::string_view kNpyInBase64 = "\"k05VTVBZ";

std::optional<uint32_t> SixBits(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<uint32_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<uint32_t>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<uint32_t>(c - '0' + 52);
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

// Returns nothing if the text is not base64.
std::optional<std::string> FromBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  int padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto six = SixBits(c);
    if (!six.has_value()) return std::nullopt;
    bits = bits << 6U | *six;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(
        static_cast<char>((bits >> static_cast<uint32_t>(count)) & 0xFFU));
  }
  return out;
}

// The position of an array in the file.
struct ArrayLocation {
  std::string name;
  std::optional<int64_t> runner;
  std::optional<int64_t> iteration;
};

struct EncodedArray {
  ArrayLocation place;
  std::shared_ptr<const ByteSource> array;  // Null if there is a problem.
  absl::Status problem;
};

// Collects the arrays while the file is parsed, because a tree of the whole
// file would hold each of them several times.
class Handler final : public nlohmann::json_sax<Json> {
 public:
  std::vector<EncodedArray> found;
  // Why parsing stopped.
  absl::Status status;
  uint64_t error_offset = 0;

  bool start_object(size_t) override { return Open(true); }
  bool end_object() override {
    const Frame frame = std::move(open_.back());
    open_.pop_back();
    if (frame.is_encoded && frame.text.has_value()) {
      // A frame of its own is at the path of its parents.
      if (found.size() == kTensorsMax) return Stop(TooMuch("arrays"));
      found.push_back(Decode(frame));
      names_bytes_ += found.back().place.name.size();
      if (held_bytes_ > kPolygraphyBytesMax ||
          names_bytes_ > kPolygraphyNamesBytesMax) {
        return Stop(TooMuch("bytes"));
      }
    }
    return true;
  }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& key) override {
    if (key.size() > kPolygraphyKeyBytesMax) {
      return Stop(MakeStatus(absl::StatusCode::kResourceExhausted,
                             "json: a key has more than {} bytes",
                             kPolygraphyKeyBytesMax));
    }
    open_.back().key = std::move(key);
    if (open_.back().key.starts_with(kOldClassKey)) {
      open_.back().is_encoded = true;
    }
    return true;
  }
  bool string(std::string& text) override {
    if (!Count()) return false;
    if (open_.empty() || !open_.back().is_object) return true;
    Frame& frame = open_.back();
    if (frame.key == kClassKey) {
      frame.is_encoded = text == "ndarray" || text == "Tensor";
    } else if (frame.key == "array" || frame.key == "tensor") {
      frame.is_torch = frame.key == "tensor";
      frame.text = std::move(text);
    }
    return true;
  }
  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(int64_t) override { return Count(); }
  bool number_unsigned(uint64_t) override { return Count(); }
  bool number_float(double, const std::string&) override { return Count(); }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(size_t offset, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_offset = offset;
    return Stop(absl::InvalidArgumentError("it is not valid JSON"));
  }

 private:
  // An open object or list.
  struct Frame {
    bool is_object = false;
    std::string key;     // The current one, in an object.
    int64_t index = -1;  // The current one, in a list.
    bool is_encoded = false;
    bool is_torch = false;
    std::optional<std::string> text;
  };

  static absl::Status TooMuch(std::string_view what) {
    return MakeStatus(
        absl::StatusCode::kResourceExhausted,
        "json: it has more {} than msitd holds; in Python, write its arrays "
        "with numpy.savez instead",
        what);
  }
  bool Stop(absl::Status why) {
    if (status.ok()) status = std::move(why);
    return false;
  }
  // Counts a value of a list.
  bool Count() {
    if (!open_.empty() && !open_.back().is_object) ++open_.back().index;
    return true;
  }
  bool Open(bool is_object) {
    Count();
    if (open_.size() == static_cast<size_t>(kNestingMax)) {
      return Stop(MakeStatus(absl::StatusCode::kResourceExhausted,
                             "json: it has more than {} values in one another",
                             kNestingMax));
    }
    open_.push_back({});
    open_.back().is_object = is_object;
    return true;
  }

  // Returns the place of an object that was just closed.
  ArrayLocation LocationOfClosed() const {
    std::span<const Frame> path = open_;
    // A lazy array is an object with the array as its member `values`.
    const bool is_lazy = path.size() > 1 && path.back().is_object &&
                         path[path.size() - 2].is_object &&
                         path.back().key == "values";
    if (is_lazy) path = path.first(path.size() - 1);
    ArrayLocation out;
    const auto is_list = [&](size_t i) { return !path[i].is_object; };
    // {"lst": [[RUNNER, [{"outputs": {NAME: ...}}, ...]], ...]}
    const bool is_results = path.size() == 6 && path[0].is_object &&
                            path[0].key == "lst" && is_list(1) && is_list(2) &&
                            is_list(3) && path[4].key == "outputs" &&
                            path[5].is_object;
    // One iteration: {"outputs": {NAME: ...}}
    const bool is_iteration = path.size() == 2 && path[0].is_object &&
                              path[0].key == "outputs" && path[1].is_object;
    // [{NAME: ...}, ...]
    const bool is_inputs = path.size() == 2 && is_list(0) && path[1].is_object;
    if (is_results) {
      out.runner = path[1].index;
      out.iteration = path[3].index;
    } else if (is_inputs) {
      out.iteration = path[0].index;
    }
    if (is_results || is_inputs || is_iteration) {
      out.name = path.back().key;
      return out;
    }
    for (const Frame& frame : path) {
      if (!out.name.empty()) out.name += '/';
      out.name += frame.is_object ? frame.key : std::to_string(frame.index);
    }
    return out;
  }

  EncodedArray Decode(const Frame& frame) {
    EncodedArray out{LocationOfClosed(), nullptr, {}};
    if (frame.is_torch) {
      out.problem = absl::UnimplementedError(
          "it is a tensor of torch in JSON; in Python, convert it with "
          "tensor.numpy() before it is saved");
      return out;
    }
    auto bytes = FromBase64(*frame.text);
    if (!bytes.has_value() || !IsNpy(*bytes)) {
      out.problem = absl::InvalidArgumentError(
          "it is not a .npy file in base64, as Polygraphy writes since 0.33");
      return out;
    }
    held_bytes_ += bytes->size();
    out.array = std::make_shared<MemorySource>(*std::move(bytes));
    return out;
  }

  std::vector<Frame> open_;
  // Of arrays.
  uint64_t held_bytes_ = 0;
  uint64_t names_bytes_ = 0;
};

// Adds the runner and the iteration to names, if there are several.
void NameLocations(std::vector<EncodedArray>& found) {
  const auto has_several = [&found](auto field) {
    return std::any_of(found.begin(), found.end(),
                       [field](const EncodedArray& each) {
                         return (each.place.*field).value_or(0) > 0;
                       });
  };
  const bool has_runners = has_several(&ArrayLocation::runner);
  const bool has_iterations = has_several(&ArrayLocation::iteration);
  for (EncodedArray& each : found) {
    ArrayLocation& place = each.place;
    if (has_iterations && place.iteration.has_value()) {
      place.name = fmt::format("iteration{}/{}", *place.iteration, place.name);
    }
    if (has_runners && place.runner.has_value()) {
      place.name = fmt::format("runner{}/{}", *place.runner, place.name);
    }
  }
}

}  // namespace

bool IsPolygraphy(const ByteSource& bytes) {
  const auto text =
      bytes.ReadText(0, std::min(bytes.size(), kPolygraphyProbeBytes));
  if (!text.ok()) return false;
  const size_t begin = text->find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return false;
  if ((*text)[begin] != '{' && (*text)[begin] != '[') return false;
  return text->find(kNpyInBase64) != std::string::npos ||
         text->find(kClassKey) != std::string::npos ||
         text->find(kOldClassKey) != std::string::npos;
}

OpenedFile OpenPolygraphy(std::shared_ptr<const ByteSource> bytes,
                          const OpenOptions& options) {
  if (bytes->size() > kPolygraphyFileBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "json: it has more than {} bytes; in Python, write its "
                      "arrays with numpy.savez instead",
                      kPolygraphyFileBytesMax);
  }
  Handler handler;
  const bool is_parsed =
      Json::sax_parse(ByteIterator(*bytes), ByteIterator(), &handler);
  if (!is_parsed && handler.error_offset >= bytes->size()) {
    return absl::DataLossError("json: it is truncated");
  }
  if (!is_parsed) return handler.status;
  NameLocations(handler.found);
  std::vector<FileEntry> entries;
  for (EncodedArray& each : handler.found) {
    absl::StatusOr<FileEntry> entry =
        MakeProblem(ForeignTensor(), each.problem);
    if (each.array != nullptr) entry = ReadNpyEntry(each.array, options);
    if (!entry.ok()) entry = MakeProblem(ForeignTensor(), entry.status());
    entry->tensor.name = std::move(each.place.name);
    entries.push_back(*std::move(entry));
  }
  return std::make_unique<TensorFile>(FileKind::kPolygraphy, Attributes(),
                                      std::move(entries));
}

}  // namespace msitd::formats
