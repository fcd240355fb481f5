// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/elf_symbols.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace msitd::msit_command {
namespace {

// A library that contains only these dynamic symbols.
struct Library {
  Elf64_Ehdr head = {};
  std::vector<Elf64_Shdr> sections{3};
  std::vector<Elf64_Sym> symbols{1};
  std::string names = std::string(1, '\0');

  explicit Library(const std::vector<std::string>& symbol_names) {
    for (const std::string& name : symbol_names) {
      Elf64_Sym symbol = {};
      symbol.st_name = static_cast<Elf64_Word>(names.size());
      symbols.push_back(symbol);
      names += name + '\0';
    }
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_shoff = sizeof(head);
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = 3;
    sections[1].sh_type = SHT_DYNSYM;
    sections[1].sh_link = 2;
    sections[1].sh_size = symbols.size() * sizeof(Elf64_Sym);
    sections[1].sh_offset = sizeof(head) + 3 * sizeof(Elf64_Shdr);
    sections[2].sh_type = SHT_STRTAB;
    sections[2].sh_size = names.size();
    sections[2].sh_offset = sections[1].sh_offset + sections[1].sh_size;
  }

  std::string Bytes() const {
    std::string out;
    const auto add = [&out](const void* data, size_t size) {
      out.append(static_cast<const char*>(data), size);
    };
    add(&head, sizeof(head));
    add(sections.data(), sections.size() * sizeof(Elf64_Shdr));
    add(symbols.data(), symbols.size() * sizeof(Elf64_Sym));
    return out + names;
  }
};

const std::vector<std::string> kParts = {"Probe", "cxx11"};

absl::StatusOr<bool> Has(const std::string& bytes) {
  return HasDynamicSymbol(formats::MemorySource(bytes), kParts);
}

TEST(ElfSymbolsTest, OneSymbolHasAllParts) {
  EXPECT_EQ(*Has(Library({"malloc", "_ZN5Probe4SaveB5cxx11Ev"}).Bytes()), true);
  EXPECT_EQ(*Has(Library({"Probe", "cxx11", ""}).Bytes()), false);
  EXPECT_EQ(*Has(Library({}).Bytes()), false);
}

TEST(ElfSymbolsTest, WhatIsNoLibraryIsRefused) {
  EXPECT_EQ(Has("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Has(std::string(100, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
  Library library({"a"});
  library.sections[1].sh_type = SHT_SYMTAB;
  EXPECT_EQ(Has(library.Bytes()).status().code(),
            absl::StatusCode::kInvalidArgument);
  library = Library({"a"});
  library.head.e_ident[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(Has(library.Bytes()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ElfSymbolsTest, PlacesBehindTheEndAreRefused) {
  for (const uint64_t place : {uint64_t{1} << 20, UINT64_MAX, UINT64_MAX - 7}) {
    Library library({"a"});
    library.head.e_shoff = place;
    EXPECT_FALSE(Has(library.Bytes()).ok());
    library = Library({"a"});
    library.sections[1].sh_offset = place;
    EXPECT_FALSE(Has(library.Bytes()).ok());
    library = Library({"a"});
    library.sections[1].sh_size = place;
    EXPECT_FALSE(Has(library.Bytes()).ok());
    library = Library({"a"});
    library.sections[2].sh_size = place;
    EXPECT_FALSE(Has(library.Bytes()).ok());
  }
  Library library({"a"});
  library.sections[1].sh_link = 3;
  EXPECT_FALSE(Has(library.Bytes()).ok());
  library = Library({"Probe_cxx11"});
  library.symbols[1].st_name = 1000;
  EXPECT_EQ(*Has(library.Bytes()), false);
}

TEST(ElfSymbolsTest, AnyBytesAreAnswered) {
  std::mt19937 random(1);
  const std::string good = Library({"Probe_cxx11", "b", "c"}).Bytes();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (int change = 0; change < 3 && !bytes.empty(); ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    // Both results are valid.
    Has(bytes).IgnoreError();
  }
}

}  // namespace
}  // namespace msitd::msit_command
