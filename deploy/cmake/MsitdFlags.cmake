# Compiler flags of all targets of this project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Checks stay enabled in release builds, because MSITD_CHECK ignores NDEBUG. -O2
# is as fast as -O3 except in the SIMD kernels, which set their own level.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")

# By default, gcc collects its garbage again and again while it reads the headers of
# gRPC, because its heap is small at first. A full build takes 6 to 10 % less time with
# 512 MiB, and each of its processes up to 250 MB more.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  string(APPEND CMAKE_CXX_FLAGS " --param=ggc-min-heapsize=524288")
endif()

find_program(MSITD_CCACHE ccache)
if(MSITD_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${MSITD_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MSITD_CCACHE})
endif()
find_program(MSITD_MOLD mold)
# A cross compiler uses only its own linkers.
if(MSITD_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

add_library(msitd_flags INTERFACE)
target_compile_options(msitd_flags INTERFACE -Wall -Wextra)
if(MSITD_WERROR)
  target_compile_options(msitd_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Members that are guarded by the lock of another object are reached by
  # several expressions, which the precise analysis does not treat as equal.
  target_compile_options(msitd_flags INTERFACE -Wthread-safety
    -Wno-thread-safety-precise)
endif()
target_include_directories(msitd_flags INTERFACE ${PROJECT_SOURCE_DIR})

if(MSITD_SANITIZE)
  # Some classes in Debian's RocksDB and gRPC have no RTTI, so the vptr check
  # would report false positives.
  set(sanitize_flags -fsanitize=${MSITD_SANITIZE} -fno-sanitize-recover=all)
  if(MSITD_SANITIZE MATCHES "undefined")
    list(APPEND sanitize_flags -fno-sanitize=vptr)
  endif()
  # With instrumentation, gcc falsely warns of uninitialised reads inside the
  # standard library, for example in std::regex.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND sanitize_flags -Wno-maybe-uninitialized)
  endif()
  add_compile_options(${sanitize_flags})
  add_link_options(-fsanitize=${MSITD_SANITIZE})
endif()

# Flags for code that is not under test in a lane with sanitizers. It still needs
# the same object layout as the tested code, but compiles in about half the time.
set(MSITD_CHEAP_SANITIZE "")
if(MSITD_SANITIZE)
  set(MSITD_CHEAP_SANITIZE -O0)
  if(MSITD_SANITIZE MATCHES "undefined")
    list(APPEND MSITD_CHEAP_SANITIZE -fno-sanitize=undefined)
  endif()
endif()

if(MSITD_FUZZ)
  # Coverage instrumentation, with which libFuzzer detects new paths.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
