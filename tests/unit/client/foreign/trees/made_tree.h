// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/trees/tree.h"
#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::trees {

// Returns a .npy file with one number.
inline std::string SmallNpy() {
  std::string head =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
  head.resize(117, ' ');
  head += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) +
         std::string({static_cast<char>(head.size()), '\0'}) + head + "abcd";
}

// A tree in its own folder, in memory because it may have many files.
class MadeTree {
 public:
  // Creates the file and its parent folders.
  void Write(const std::string& relative, std::string_view bytes) const {
    const std::filesystem::path path = dir_ / relative;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void Write(const std::string& relative) const { Write(relative, SmallNpy()); }

  void Link(const std::string& relative, const std::string& target) const {
    const std::filesystem::path path = dir_ / relative;
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::create_symlink(target, path);
  }

  std::string path(const std::string& relative = "") const {
    return relative.empty() ? dir_.path() : dir_ / relative;
  }

  // Opens the tree, or the folder or file at `relative`.
  std::unique_ptr<Tree> Open(const std::string& relative = "",
                             const TreeOptions& options = {}) const {
    auto tree = OpenTree(path(relative), options);
    EXPECT_TRUE(tree.ok()) << tree.status();
    return tree.ok() ? *std::move(tree) : nullptr;
  }

 private:
  const testing::TempDir dir_ = testing::TempDir::InMemory();
};

// Returns "rank device token op#call io:index", without unset fields.
inline std::string Describe(const TreeEntry& entry) {
  const TensorKey& key = entry.key;
  std::string out = fmt::format("{} {} {} {}#{}", key.rank,
                                key.device.empty() ? "-" : key.device,
                                key.token, key.op, key.call);
  if (key.io == Io::kUnspecified) return out;
  return out + fmt::format(" {}:{}", IoName(key.io), key.index);
}

inline std::vector<std::string> DescribeAll(Tree& tree) {
  std::vector<std::string> out;
  while (const TreeEntry* entry = tree.Next()) out.push_back(Describe(*entry));
  return out;
}

// Returns "file: reason" for each problem. Paths are relative to the tree.
inline std::vector<std::string> Problems(Tree& tree, const MadeTree& made) {
  std::vector<std::string> out;
  for (const TreeProblem& problem : tree.TakeProblems()) {
    std::string file = problem.file;
    const std::string folder = made.path() + "/";
    if (file.starts_with(folder)) file.erase(0, folder.size());
    std::string reason(Message(problem.reason));
    const size_t path = reason.find(problem.file + ": ");
    if (path == 0) reason.erase(0, problem.file.size() + 2);
    out.push_back(file + ": " + reason);
  }
  return out;
}

}  // namespace msitd::trees
