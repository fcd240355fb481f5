// SPDX-License-Identifier: Apache-2.0
// A stand-in for libmindiedump.so: notes in STANDIN_LOG what it is loaded with.
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void note(void) {
  const char* path = getenv("STANDIN_LOG");
  const char* config = getenv("MINDIE_RT_DUMP_CONFIG_PATH");
  FILE* log = path == NULL ? NULL : fopen(path, "a");
  if (log == NULL) return;
  fprintf(log, "libmindiedump %s\n", config == NULL ? "" : config);
  fclose(log);
}
