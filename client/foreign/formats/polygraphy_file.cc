// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/polygraphy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/json_walk.h"
#include "client/foreign/formats/npy_file.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

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

struct ArrayLevel : JsonLevel {
  bool is_encoded = false;
  bool is_torch = false;
  std::optional<std::string> text;
};

// Collects the arrays of a file.
class ArrayHandler final : public JsonWalk<ArrayLevel> {
 public:
  std::vector<EncodedArray> found;

  ArrayHandler() : JsonWalk("json", kNestingMax) {}

  bool CloseObject() override {
    const ArrayLevel level = Close();
    if (level.is_encoded && level.text.has_value()) {
      // A level of its own is at the path of its parents.
      if (found.size() == kTensorsMax) return Stop(TooMuch("arrays"));
      found.push_back(Decode(level));
      names_bytes_ += found.back().place.name.size();
      if (held_bytes_ > kPolygraphyBytesMax ||
          names_bytes_ > kPolygraphyNamesBytesMax) {
        return Stop(TooMuch("bytes"));
      }
    }
    return true;
  }
  bool Key(std::string& key) override {
    if (key.size() > kPolygraphyKeyBytesMax) {
      return Stop(MakeStatus(absl::StatusCode::kResourceExhausted,
                             "json: a key has more than {} bytes",
                             kPolygraphyKeyBytesMax));
    }
    levels().back().key = std::move(key);
    if (levels().back().key.starts_with(kOldClassKey)) {
      levels().back().is_encoded = true;
    }
    return true;
  }
  bool Text(std::string& text) override {
    Count();
    if (levels().empty() || !levels().back().is_object) return true;
    ArrayLevel& level = levels().back();
    if (level.key == kClassKey) {
      level.is_encoded = text == "ndarray" || text == "Tensor";
    } else if (level.key == "array" || level.key == "tensor") {
      level.is_torch = level.key == "tensor";
      level.text = std::move(text);
    }
    return true;
  }

 private:
  static absl::Status TooMuch(std::string_view what) {
    return MakeStatus(
        absl::StatusCode::kResourceExhausted,
        "json: it has more {} than msitd holds; in Python, write its arrays "
        "with numpy.savez instead",
        what);
  }

  // Returns the place of an object that was just closed.
  ArrayLocation LocationOfClosed() const {
    std::span<const ArrayLevel> path = levels();
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
    for (const ArrayLevel& level : path) {
      if (!out.name.empty()) out.name += '/';
      out.name += level.is_object ? level.key : std::to_string(level.index);
    }
    return out;
  }

  EncodedArray Decode(const ArrayLevel& level) {
    EncodedArray out{LocationOfClosed(), nullptr, {}};
    if (level.is_torch) {
      out.problem = absl::UnimplementedError(
          "it is a tensor of torch in JSON; in Python, convert it with "
          "tensor.numpy() before it is saved");
      return out;
    }
    auto bytes = FromBase64(*level.text);
    if (!bytes.has_value() || !IsNpy(*bytes)) {
      out.problem = absl::InvalidArgumentError(
          "it is not a .npy file in base64, as Polygraphy writes since 0.33");
      return out;
    }
    held_bytes_ += bytes->size();
    out.array = std::make_shared<MemorySource>(*std::move(bytes));
    return out;
  }

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
  ArrayHandler handler;
  MSITD_RETURN_IF_ERROR(handler.Parse(*bytes));
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
