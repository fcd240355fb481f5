// SPDX-License-Identifier: Apache-2.0
// A stand-in for a program that runs a model by MindIE: uses CANN, and leaves
// both mappings where it runs.
//
// usage: standin_mindie [exit | fork | dump | STATUS]
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int32_t aclInit(const char*);
int32_t aclFinalize(void);
int32_t aclrtSetDevice(int32_t);
int32_t aclmdlInitDump(void);
int32_t aclmdlSetDump(const char*);
int32_t aclmdlLoadFromFile(const char*, uint32_t*);
int32_t aclmdlExecute(uint32_t, const void*, void*);

static void leave(const char* name, const char* text) {
  FILE* file = fopen(name, "w");
  if (file == NULL) abort();
  fputs(text, file);
  fclose(file);
}

static void must(int32_t answer, const char* what) {
  if (answer == 0) return;
  fprintf(stderr, "%s answered %d\n", what, answer);
  exit(9);
}

int standin_main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  const char* config = getenv("MINDIE_RT_DUMP_CONFIG_PATH");
  uint32_t id = 0;
  must(aclInit(NULL), "aclInit");
  must(aclrtSetDevice(0), "aclrtSetDevice");
  if (config != NULL || strcmp(how, "dump") == 0) {
    must(aclmdlInitDump(), "aclmdlInitDump");
    if (config != NULL) must(aclmdlSetDump(config), "aclmdlSetDump");
  }
  must(aclmdlLoadFromFile("model.om", &id), "aclmdlLoadFromFile");
  if (strcmp(how, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) exit(3);
    int status = 0;
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
      abort();
  }
  must(aclmdlExecute(id, NULL, NULL), "aclmdlExecute");
  leave("mindie_rt_op_mapping.json",
        "[{\"id\": 0, \"rt_layer\": \"l0\", \"ge_op\": \"op0\"}]");
  leave("mindie_torch_op_mapping.json",
        "[{\"fx_node\": \"/layer1/0/relu/relu_1\", \"rt_layer\": \"l0\"}]");
  if (strcmp(how, "exit") == 0) return 0;
  must(aclFinalize(), "aclFinalize");
  return atoi(how);
}

#ifdef STANDIN_LOADS
#include <dlfcn.h>
int main(int argc, char** argv) {
  void* library = dlopen(STANDIN_LOADS, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 8;
  }
  int (*run)(int, char**) =
      (int (*)(int, char**))dlsym(library, "standin_main");
  return run(argc, argv);
}
#elif !defined(STANDIN_LIBRARY)
int main(int argc, char** argv) { return standin_main(argc, argv); }
#endif
