// SPDX-License-Identifier: Apache-2.0
// Runs the constructors of a program. Until 2.33, glibc left that to a function
// in the program, which the start code of newer versions no longer passes. A
// program is linked with --wrap=__libc_start_main, so its start code calls the
// function below.
#include <stddef.h>

typedef int Main(int, char**, char**);
typedef void Initializer(int, char**, char**);

extern int __real___libc_start_main(Main* main, int argc, char** argv,
                                    Initializer* init, void (*fini)(void),
                                    void (*rtld_fini)(void), void* stack_end);
extern void _init(void);
extern Initializer* __init_array_start[] __attribute__((visibility("hidden")));
extern Initializer* __init_array_end[] __attribute__((visibility("hidden")));

static void RunConstructors(int argc, char** argv, char** environment) {
  _init();
  const size_t count = (size_t)(__init_array_end - __init_array_start);
  for (size_t i = 0; i < count; ++i) {
    __init_array_start[i](argc, argv, environment);
  }
}

// A newer glibc, which would run them itself, does not do so if it is given a
// function.
__attribute__((visibility("hidden"))) int __wrap___libc_start_main(
    Main* main, int argc, char** argv, Initializer* init, void (*fini)(void),
    void (*rtld_fini)(void), void* stack_end) {
  return __real___libc_start_main(main, argc, argv,
                                  init != NULL ? init : RunConstructors, fini,
                                  rtld_fini, stack_end);
}
