// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/torch_tags.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "client/foreign/formats/format_limits.h"

namespace msitd::formats {
namespace {

// Reads the tags that a dumper saves with a value: scalars, whose names are
// joined by dots.
class TagReader {
 public:
  explicit TagReader(const Pickle& pickle) : pickle_(pickle) {}

  // Ignores values that are not scalars, and those beyond kTagsMax.
  void Read(PickleValue dict, const std::string& prefix, int depth) {
    const auto items = pickle_.Items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (++count_ > kTagsMax) return;
      const std::string name =
          prefix + std::string(pickle_.Text(items[i]).substr(0, kTagBytesMax));
      if (items[i + 1].kind == PickleKind::kDict && depth < kTagNestingMax) {
        Read(items[i + 1], name + ".", depth + 1);
        continue;
      }
      std::string text = TextOf(items[i + 1]);
      if (!text.empty()) tags_[name] = std::move(text);
    }
  }

  Attributes TakeTags() { return std::move(tags_); }

 private:
  static constexpr int kTagNestingMax = 4;

  std::string TextOf(PickleValue value) const {
    switch (value.kind) {
      case PickleKind::kText:
        return std::string(pickle_.Text(value).substr(0, kTagBytesMax));
      case PickleKind::kInteger:
        return fmt::format("{}", value.bits);
      case PickleKind::kReal:
        return fmt::format("{}", Pickle::Real(value));
      case PickleKind::kBool:
        return value.bits != 0 ? "true" : "false";
      default:
        return "";
    }
  }

  const Pickle& pickle_;
  uint64_t count_ = 0;
  Attributes tags_;
};

}  // namespace

std::optional<Tagged> TaggedOf(const Pickle& pickle) {
  const auto items = pickle.Items(pickle.root());
  const bool is_tagged =
      pickle.root().kind == PickleKind::kDict && items.size() == 4 &&
      pickle.Text(items[0]) == "value" && pickle.Text(items[2]) == "meta" &&
      items[3].kind == PickleKind::kDict;
  if (!is_tagged) return std::nullopt;
  return Tagged{items[1], items[3]};
}

Attributes TagsOf(const Pickle& pickle, PickleValue dict) {
  TagReader reader(pickle);
  reader.Read(dict, "", 0);
  return reader.TakeTags();
}

}  // namespace msitd::formats
