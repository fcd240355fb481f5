// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

absl::Status NotTaken(std::string_view why) {
  return absl::InvalidArgumentError(std::string(why));
}

template <typename Record>
absl::StatusOr<std::vector<Record>> ReadRecords(
    const formats::ByteSource& library, uint64_t offset, uint64_t count) {
  if (offset > library.size() ||
      count > (library.size() - offset) / sizeof(Record)) {
    return absl::DataLossError("it ends early");
  }
  std::vector<Record> records(count);
  MSITD_RETURN_IF_ERROR(library.ReadAt(
      offset, std::as_writable_bytes(std::span<Record>(records))));
  return records;
}

absl::StatusOr<std::vector<Elf64_Shdr>> ReadSections(
    const formats::ByteSource& library) {
  MSITD_ASSIGN_OR_RETURN(const auto heads,
                         ReadRecords<Elf64_Ehdr>(library, 0, 1));
  const Elf64_Ehdr& head = heads.front();
  const bool is_ours = std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                       head.e_ident[EI_CLASS] == ELFCLASS64 &&
                       head.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!is_ours) return NotTaken("it is not a 64-bit ELF file");
  if (head.e_shoff == 0 || head.e_shentsize != sizeof(Elf64_Shdr)) {
    return NotTaken("it has no sections");
  }
  uint64_t count = head.e_shnum;
  if (count == 0) {
    // Too many for the field in the header.
    MSITD_ASSIGN_OR_RETURN(const auto first,
                           ReadRecords<Elf64_Shdr>(library, head.e_shoff, 1));
    count = first.front().sh_size;
  }
  if (count > kElfSectionsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has {} sections; the maximum is {}", count,
                      kElfSectionsMax);
  }
  return ReadRecords<Elf64_Shdr>(library, head.e_shoff, count);
}

bool HasAll(std::string_view name, const std::vector<std::string>& parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [name](const std::string& part) {
                       return name.find(part) != std::string_view::npos;
                     });
}

}  // namespace

absl::StatusOr<bool> HasDynamicSymbol(const formats::ByteSource& library,
                                      const std::vector<std::string>& parts) {
  MSITD_ASSIGN_OR_RETURN(const auto sections, ReadSections(library));
  const auto table =
      std::find_if(sections.begin(), sections.end(),
                   [](const Elf64_Shdr& s) { return s.sh_type == SHT_DYNSYM; });
  if (table == sections.end()) return NotTaken("it has no dynamic symbols");
  if (table->sh_link >= sections.size()) {
    return NotTaken("the names of its symbols are not in a section");
  }
  const Elf64_Shdr& strings = sections[table->sh_link];
  const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
  if (count > kElfSymbolsMax || strings.sh_size > kElfNamesBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has {} symbols with {} bytes of names; the maximum "
                      "is {} with {} bytes",
                      count, strings.sh_size, kElfSymbolsMax,
                      kElfNamesBytesMax);
  }
  MSITD_ASSIGN_OR_RETURN(
      const auto symbols,
      ReadRecords<Elf64_Sym>(library, table->sh_offset, count));
  MSITD_ASSIGN_OR_RETURN(
      const auto bytes,
      ReadRecords<char>(library, strings.sh_offset, strings.sh_size));
  const std::string_view names(bytes.data(), bytes.size());
  for (const Elf64_Sym& symbol : symbols) {
    if (symbol.st_name >= names.size()) continue;
    std::string_view name = names.substr(symbol.st_name, kElfNameBytesMax);
    name = name.substr(0, name.find('\0'));
    if (HasAll(name, parts)) return true;
  }
  return false;
}

absl::StatusOr<bool> HasDynamicSymbol(const std::string& path,
                                      const std::vector<std::string>& parts) {
  const auto file = formats::FileSource::Open(path);
  if (!file.ok()) return Annotate(file.status(), path);
  auto found = HasDynamicSymbol(**file, parts);
  if (!found.ok()) return Annotate(found.status(), path);
  return found;
}

}  // namespace msitd::msit_command
