// SPDX-License-Identifier: Apache-2.0
// A stand-in for libascendcl.so: replays the GE dumps of a folder, through the
// callback that was registered, or else as files, as CANN does. It dumps what
// aclmdlSetDump was told, when a model is executed.
//
// STANDIN_TREE: the folder. STANDIN_ORDER: `append`, slices of all files by
// turns, each at the end of its file; `files`, one file after the other;
// `shuffle`, in any order, with offsets. STANDIN_SLICE_BYTES.
// STANDIN_KILL_AFTER: the process ends itself before this slice, once there is
// the file STANDIN_GATE. STANDIN_LOG: a file for what was called.
// STANDIN_BREAKS: this slice has a place that no file has, from 0.
// STANDIN_HAS_NO_CALLBACK: it takes none. STANDIN_HOSTILE: slices that no CANN
// would send.
#define _GNU_SOURCE
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct chunk {
  char name[4096];
  uint32_t size;
  uint32_t is_last;
  int64_t offset;
  int32_t flag;
  uint8_t bytes[];
};
typedef int32_t (*callback_t)(const struct chunk*, int32_t);

struct file {
  char path[4096];  // Below the tree.
  char* bytes;
  size_t size;
  size_t sent;
};
struct slice {
  struct file* file;
  size_t offset;
  size_t size;
};

static callback_t callback;
static int is_initialised, is_dumping, has_loaded;
static char dump_path[4096], layers[65536];
static struct file* files;
static size_t file_count, root_size;
static long slices_left = -1;

static const char* variable(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value == NULL ? otherwise : value;
}

static void note(const char* what) {
  const char* path = getenv("STANDIN_LOG");
  FILE* log = path == NULL ? NULL : fopen(path, "a");
  if (log == NULL) return;
  fprintf(log, "%s\n", what);
  fclose(log);
}

static int take(const char* path, const struct stat* about, int kind,
                struct FTW* ftw) {
  (void)ftw;
  if (kind != FTW_F) return 0;
  files = realloc(files, (file_count + 1) * sizeof *files);
  struct file* file = &files[file_count++];
  memset(file, 0, sizeof *file);
  strcpy(file->path, path + root_size + 1);
  file->size = (size_t)about->st_size;
  file->bytes = malloc(file->size + 1);
  FILE* in = fopen(path, "rb");
  if (in == NULL || fread(file->bytes, 1, file->size, in) != file->size)
    abort();
  fclose(in);
  return 0;
}

static int by_path(const void* a, const void* b) {
  return strcmp(((const struct file*)a)->path, ((const struct file*)b)->path);
}

// Returns whether the op of a file, the second part of its name, is listed.
static int is_listed(const struct file* file) {
  if (layers[0] == '\0') return 1;
  const char* name = strrchr(file->path, '/') + 1;
  const char* op = strchr(name, '.') + 1;
  char wanted[4096];
  snprintf(wanted, sizeof wanted, "\"%.*s\"", (int)strcspn(op, "."), op);
  return strstr(layers, wanted) != NULL;
}

static void give(const char* name, int64_t offset, const char* bytes,
                 size_t size, int is_last, int32_t length) {
  if (slices_left >= 0 && slices_left-- == 0) {
    const char* gate = variable("STANDIN_GATE", "/");
    for (int i = 0; i < 6000 && access(gate, F_OK) != 0; ++i) usleep(10000);
    raise(SIGKILL);
  }
  struct chunk* chunk = malloc(sizeof *chunk + size + 1);
  memset(chunk, 0, sizeof *chunk);
  snprintf(chunk->name, sizeof chunk->name, "%s", name);
  chunk->size = (uint32_t)size;
  chunk->is_last = (uint32_t)is_last;
  chunk->offset = offset;
  memcpy(chunk->bytes, bytes, size);
  if (length < 0) length = (int32_t)(sizeof *chunk + size);
  if (callback(chunk, length) != 0) abort();
  free(chunk);
}

static void write_files(void) {
  for (size_t i = 0; i < file_count; ++i) {
    if (!is_listed(&files[i])) continue;
    char path[9000];
    snprintf(path, sizeof path, "%s/%s", dump_path, files[i].path);
    for (char* slash = path + 1; (slash = strchr(slash, '/')) != NULL;
         ++slash) {
      *slash = '\0';
      mkdir(path, 0755);
      *slash = '/';
    }
    FILE* out = fopen(path, "wb");
    if (out == NULL ||
        fwrite(files[i].bytes, 1, files[i].size, out) != files[i].size) {
      abort();
    }
    fclose(out);
  }
}

static int by_file(const void* a, const void* b) {
  const struct slice *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return x->offset < y->offset ? -1 : 1;
}

static void send_files(void) {
  const size_t slice_bytes =
      strtoul(variable("STANDIN_SLICE_BYTES", "100"), NULL, 10);
  const int shuffles =
      strcmp(variable("STANDIN_ORDER", "append"), "shuffle") == 0;
  const int leaves_open = getenv("STANDIN_LEAVES_OPEN") != NULL;
  slices_left = strtol(variable("STANDIN_KILL_AFTER", "-1"), NULL, 10);
  struct slice* slices = NULL;
  size_t count = 0, live = 1;
  for (size_t round = 0; live > 0; ++round) {
    live = 0;
    for (size_t i = 0; i < file_count; ++i) {
      const size_t begin = round * slice_bytes;
      if (begin >= files[i].size || !is_listed(&files[i])) continue;
      const size_t rest = files[i].size - begin;
      const struct slice slice = {&files[i], begin,
                                  rest < slice_bytes ? rest : slice_bytes};
      slices = realloc(slices, (count + 1) * sizeof *slices);
      slices[count++] = slice;
      ++live;
    }
  }
  if (strcmp(variable("STANDIN_ORDER", ""), "files") == 0) {
    qsort(slices, count, sizeof *slices, by_file);
  }
  uint32_t random = 12345;
  for (size_t i = count; shuffles && i > 1; --i) {
    random = random * 1664525 + 1013904223;
    const size_t other = (random >> 8) % i;
    const struct slice kept = slices[i - 1];
    slices[i - 1] = slices[other];
    slices[other] = kept;
  }
  const size_t broken = strtoul(variable("STANDIN_BREAKS", "-1"), NULL, 10);
  for (size_t i = 0; i < count; ++i) {
    const struct slice* s = &slices[i];
    char name[9000];
    snprintf(name, sizeof name, "%s/%s", dump_path, s->file->path);
    const int is_last = s->offset + s->size == s->file->size;
    if (is_last && leaves_open && s->file == &files[0]) continue;
    const int64_t offset = shuffles ? (int64_t)s->offset : -1;
    give(name, i == broken ? -2 : offset, s->file->bytes + s->offset, s->size,
         is_last, -1);
  }
  free(slices);
}

static void send_hostile(void) {
  char name[9000];
#define NAME(text) (snprintf(name, sizeof name, "%s/%s", dump_path, text), name)
  const char bytes[64] = "hello";
  give(NAME("20251001120000/0/Graph/1/0/A.huge.1.1.1759312800000001"),
       INT64_MAX - 3, bytes, 64, 1, -1);
  give(NAME("20251001120000/0/Graph/1/0/A.far.1.1.1759312800000002"),
       (int64_t)1 << 50, bytes, 64, 0, -1);
  give(NAME("20251001120000/0/Graph/1/0/A.before.1.1.1759312800000003"), -2,
       bytes, 64, 1, -1);
  give(NAME("20251001120000/0/Graph/1/0/A.empty.1.1.1759312800000004"), 0,
       bytes, 0, 1, -1);
  give(NAME("20251001120000/0/Graph/1/0/A.lies.1.1.1759312800000005"), 0, bytes,
       64, 1, 4116 + 63);
  give(NAME("20251001120000/0/Graph/1/0/A.short.1.1.1759312800000006"), 0,
       bytes, 64, 1, 12);
  give("", 0, bytes, 64, 1, -1);
  give("no slash", 0, bytes, 64, 1, -1);
  give(NAME("20251001120000/0/Graph/1/0/\n\033[31m.1.1.1759312800000007"), 0,
       bytes, 64, 1, -1);
  for (int i = 0; i < 1000; ++i) {
    give(NAME("20251001120000/0/Graph/1/0/A.lap.1.1.1759312800000008"),
         (i * 7) % 61, bytes, 64, 0, -1);
  }
  for (int i = 0; i < 100000; ++i) {
    char small[200];
    snprintf(small, sizeof small, "20251001120000/0/Graph/1/0/A.s%d.1.1.%d", i,
             i);
    // For every second one, no more data follows.
    give(NAME(small), -1, bytes, 8, i % 2, -1);
  }
  callback(NULL, 0);
}

int32_t acldumpRegCallback(callback_t function, int32_t flag) {
  note("acldumpRegCallback");
  if (getenv("STANDIN_HAS_NO_CALLBACK") != NULL) return 200000;
  if (flag != 0 || is_dumping || has_loaded) return 500002;
  callback = function;
  return 0;
}

int32_t aclInit(const char* path) {
  note("aclInit");
  (void)path;
  if (is_initialised) return 100002;
  is_initialised = 1;
  return 0;
}

int32_t aclrtSetDevice(int32_t device) {
  (void)device;
  return is_initialised ? 0 : 100001;
}

int32_t aclmdlInitDump(void) {
  note("aclmdlInitDump");
  if (!is_initialised || is_dumping) return 100002;
  is_dumping = 1;
  return 0;
}

int32_t aclmdlSetDump(const char* path) {
  static char text[1 << 17];
  FILE* in = path == NULL ? NULL : fopen(path, "r");
  if (in == NULL || !is_dumping) return 100000;
  text[fread(text, 1, sizeof text - 1, in)] = '\0';
  fclose(in);
  note(text);
  const char* key = strstr(text, "\"dump_path\":");
  const char* end = key == NULL ? NULL : strchr(key + 14, '"');
  if (end == NULL || strstr(text, "\"model_name\":") == NULL) return 100000;
  const char* begin = strchr(key + 12, '"') + 1;
  end = strchr(begin, '"');
  snprintf(dump_path, sizeof dump_path, "%.*s", (int)(end - begin), begin);
  struct stat about;
  if (stat(dump_path, &about) != 0 || !S_ISDIR(about.st_mode)) return 100000;
  const char* list = strstr(text, "\"layer\":");
  snprintf(layers, sizeof layers, "%s", list == NULL ? "" : list + 8);
  return 0;
}

int32_t aclmdlFinalizeDump(void) {
  note("aclmdlFinalizeDump");
  is_dumping = 0;
  return 0;
}

int32_t aclmdlLoadFromFile(const char* path, uint32_t* id) {
  (void)path;
  note("aclmdlLoadFromFile");
  has_loaded = 1;
  *id = 1;
  return 0;
}

int32_t aclmdlExecute(uint32_t id, const void* in, void* out) {
  (void)id, (void)in, (void)out;
  note("aclmdlExecute");
  const char* tree = getenv("STANDIN_TREE");
  if (!is_dumping || dump_path[0] == '\0' || tree == NULL) return 0;
  root_size = strlen(tree);
  file_count = 0;
  if (nftw(tree, take, 32, FTW_PHYS) != 0) abort();
  qsort(files, file_count, sizeof *files, by_path);
  if (callback == NULL) {
    write_files();
    return 0;
  }
  if (getenv("STANDIN_HOSTILE") != NULL) send_hostile();
  send_files();
  return 0;
}

int32_t aclFinalize(void) {
  note("aclFinalize");
  is_initialised = is_dumping = has_loaded = 0;
  callback = NULL;
  return 0;
}
