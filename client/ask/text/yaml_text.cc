// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/yaml_text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <utility>

#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using YAML::anchor_t;
using YAML::Mark;

int LineOf(const Mark& mark) { return mark.line + 1; }

// The parser can only be stopped by an exception, which ReadYaml catches.
struct Refused {
  absl::Status status;
};

[[noreturn]] void RefuseAsTooMuch(std::string_view what) {
  throw Refused{MakeStatus(absl::StatusCode::kResourceExhausted, "{}", what)};
}

// Each token begins or ends with one of these, or is between two of them.
bool IsIndicator(char one) {
  return std::string_view("[]{},:?!&*\"'").find(one) != std::string_view::npos;
}

// The text as the parser reads it. The parser holds the tokens of a line, and
// of all text in brackets, before it reports the first one: 100 to 550 bytes
// for each indicator. This class therefore counts indicators since the last
// report.
class Feed final : public std::streambuf {
 public:
  explicit Feed(std::string text) : text_(std::move(text)) {
    setg(text_.data(), text_.data(), text_.data() + text_.size());
  }

  void OnTold() { untold_count_ = 0; }

 protected:
  std::streamsize xsgetn(char* out, std::streamsize size) override {
    const std::streamsize got = std::streambuf::xsgetn(out, size);
    untold_count_ +=
        static_cast<size_t>(std::count_if(out, out + got, IsIndicator));
    if (untold_count_ > kYamlUntoldMax) {
      RefuseAsTooMuch(
          "has too much text in one line, string or pair of brackets: write "
          "one item per line, without brackets around all items");
    }
    return got;
  }

 private:
  std::string text_;
  size_t untold_count_ = 0;
};

// Builds a tree from the events of the parser.
class TreeMaker final : public YAML::EventHandler {
 public:
  explicit TreeMaker(Feed& feed) : feed_(feed) {}

  YamlValue Take() { return std::move(root_); }

  void OnDocumentStart(const Mark& /*mark*/) override { feed_.OnTold(); }
  void OnDocumentEnd() override { feed_.OnTold(); }
  void OnNull(const Mark& mark, anchor_t /*anchor*/) override {
    Add(mark, YamlValue::Kind::kNull, "");
  }
  void OnAlias(const Mark& mark, anchor_t /*anchor*/) override {
    Refuse(mark, "aliases are not supported");
  }
  void OnScalar(const Mark& mark, const std::string& /*tag*/,
                anchor_t /*anchor*/, const std::string& value) override {
    Add(mark, YamlValue::Kind::kScalar, value);
  }
  void OnSequenceStart(const Mark& mark, const std::string& /*tag*/,
                       anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(mark, YamlValue::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const Mark& mark, const std::string& /*tag*/,
                  anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(mark, YamlValue::Kind::kMap);
  }
  void OnMapEnd() override {
    CheckKeys(open_.back());
    Close();
  }

 private:
  struct Level {
    YamlValue value;
    bool has_key = false;
    // The line of each key.
    std::vector<int> lines;
  };

  [[noreturn]] static void Refuse(const Mark& mark, std::string_view what) {
    throw Refused{MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                             LineOf(mark), what)};
  }

  void Count() {
    feed_.OnTold();
    if (++count_ > kYamlValuesMax) RefuseAsTooMuch("has too many values");
  }

  void Add(const Mark& mark, YamlValue::Kind kind, const std::string& text) {
    Count();
    if (!open_.empty() && open_.back().value.kind == YamlValue::Kind::kMap &&
        !open_.back().has_key) {
      if (kind != YamlValue::Kind::kScalar) Refuse(mark, "a key is empty");
      open_.back().value.keys.push_back(text);
      open_.back().lines.push_back(LineOf(mark));
      open_.back().has_key = true;
      return;
    }
    YamlValue value;
    value.kind = kind;
    value.text = text;
    value.line = LineOf(mark);
    Place(std::move(value));
  }

  void Open(const Mark& mark, YamlValue::Kind kind) {
    Count();
    if (open_.size() == kYamlDepthMax) {
      RefuseAsTooMuch("values are nested too deep");
    }
    if (!open_.empty() && open_.back().value.kind == YamlValue::Kind::kMap &&
        !open_.back().has_key) {
      Refuse(mark, "a key is not a string");
    }
    Level& level = open_.emplace_back();
    level.value.kind = kind;
    level.value.line = LineOf(mark);
  }

  void Close() {
    YamlValue value = std::move(open_.back().value);
    open_.pop_back();
    Place(std::move(value));
  }

  void Place(YamlValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    open_.back().value.items.push_back(std::move(value));
    open_.back().has_key = false;
  }

  static void CheckKeys(const Level& level) {
    std::vector<std::pair<std::string_view, int>> keys;
    for (size_t i = 0; i < level.value.keys.size(); ++i) {
      keys.emplace_back(level.value.keys[i], level.lines[i]);
    }
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(
        keys.begin(), keys.end(),
        [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice == keys.end()) return;
    throw Refused{MakeStatus(absl::StatusCode::kInvalidArgument,
                             "line {}: \"{}\" appears twice",
                             std::next(twice)->second, twice->first)};
  }

  Feed& feed_;
  std::vector<Level> open_;
  YamlValue root_;
  size_t count_ = 0;
};

}  // namespace

const YamlValue* YamlValue::Find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end()
             ? nullptr
             : &items[static_cast<size_t>(found - keys.begin())];
}

absl::StatusOr<YamlValue> ReadYaml(std::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "has {} bytes, more than {}", text.size(), kYamlBytesMax);
  }
  // The parser would also accept other encodings.
  if (!IsValidUtf8(text) || text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("is not UTF-8 text");
  }
  Feed feed{std::string(text)};
  TreeMaker tree(feed);
  try {
    std::istream stream(&feed);
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(tree)) {
      TreeMaker rest(feed);
      if (parser.HandleNextDocument(rest)) {
        return absl::InvalidArgumentError("has more than one document");
      }
    }
  } catch (const Refused& refused) {
    return refused.status;
  } catch (const YAML::Exception& error) {
    if (error.mark.is_null()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "is not valid YAML: {}", error.msg);
    }
    return MakeStatus(absl::StatusCode::kInvalidArgument, "line {}: {}",
                      LineOf(error.mark), error.msg);
  }
  return tree.Take();
}

}  // namespace msitd::ask
