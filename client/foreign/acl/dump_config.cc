// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/dump_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace msitd::acl {
namespace {

// The model name that MindIE uses.
constexpr char kModel[] = "Graph";

bool HasText(const char* text) { return text != nullptr && *text != '\0'; }

void PrintString(FILE* file, const char* text, size_t size) {
  fputc('"', file);
  for (size_t i = 0; i < size; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20) {
      fprintf(file, "\\u%04x", c);
      continue;
    }
    if (c == '"' || c == '\\') fputc('\\', file);
    fputc(c, file);
  }
  fputc('"', file);
}

// Ignores empty names between commas.
void PrintOps(FILE* file, const char* ops) {
  const char* separator = "";
  while (*ops != '\0') {
    const size_t size = strcspn(ops, ",");
    if (size > 0) {
      fputs(separator, file);
      PrintString(file, ops, size);
      separator = ",";
    }
    ops += size;
    ops += *ops == ',' ? 1 : 0;
  }
}

void Print(FILE* file, const DumpConfig& config) {
  const char* const model = HasText(config.model) ? config.model : kModel;
  fputs("{\"dump\":{\"dump_path\":", file);
  PrintString(file, config.dump_path, strlen(config.dump_path));
  fputs(",\"dump_mode\":\"all\",\"dump_op_switch\":\"off\",\"dump_list\":[",
        file);
  fputs("{\"model_name\":", file);
  PrintString(file, model, strlen(model));
  if (HasText(config.ops)) {
    fputs(",\"layer\":[", file);
    PrintOps(file, config.ops);
    fputc(']', file);
  }
  fputs("}]}}\n", file);
}

}  // namespace

const char* TemporaryFolder() {
  const char* const folder = getenv("TMPDIR");
  return HasText(folder) && folder[0] == '/' ? folder : "/tmp";
}

bool WriteDumpConfig(const DumpConfig& config, char* path, size_t path_size) {
  const int length =
      snprintf(path, path_size, "%s/msit_acl_XXXXXX.json", TemporaryFolder());
  if (length < 0 || static_cast<size_t>(length) >= path_size) {
    errno = ENAMETOOLONG;
    return false;
  }
  const int fd = mkostemps(path, 5, O_CLOEXEC);
  if (fd < 0) return false;
  FILE* const file = fdopen(fd, "w");
  if (file == nullptr) {
    close(fd);
    unlink(path);
    return false;
  }
  Print(file, config);
  const bool is_bad = ferror(file) != 0;
  if (fclose(file) == 0 && !is_bad) return true;
  unlink(path);
  return false;
}

}  // namespace msitd::acl
