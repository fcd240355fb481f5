# Compiler flags of every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Release checks stay on: MSITD_CHECK does not look at NDEBUG, and -O2 is
# within noise of -O3 outside the SIMD kernels, which set their own level.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")

find_program(MSITD_CCACHE ccache)
if(MSITD_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${MSITD_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MSITD_CCACHE})
endif()
find_program(MSITD_MOLD mold)
# A compiler for another machine looks for linkers of its own only.
if(MSITD_MOLD AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

add_library(msitd_flags INTERFACE)
target_compile_options(msitd_flags INTERFACE -Wall -Wextra)
if(MSITD_WERROR)
  target_compile_options(msitd_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # What is guarded by the lock of an owner is named in more ways than one,
  # which the precise form does not follow.
  target_compile_options(msitd_flags INTERFACE -Wthread-safety
    -Wno-thread-safety-precise)
endif()
target_include_directories(msitd_flags INTERFACE ${PROJECT_SOURCE_DIR})

if(MSITD_SANITIZE)
  # Debian's RocksDB and gRPC come without RTTI for some classes, so the vptr
  # check would report them, not us.
  set(sanitize_flags -fsanitize=${MSITD_SANITIZE} -fno-sanitize-recover=all)
  if(MSITD_SANITIZE MATCHES "undefined")
    list(APPEND sanitize_flags -fno-sanitize=vptr)
  endif()
  # What the instrumentation adds makes gcc see uninitialised reads inside
  # the standard library, in std::regex for one.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND sanitize_flags -Wno-maybe-uninitialized)
  endif()
  add_compile_options(${sanitize_flags})
  add_link_options(-fsanitize=${MSITD_SANITIZE})
endif()

# For code that is not under test in a lane with sanitizers, but has to see the
# same layout of objects as what is: compiles in about half the time.
set(MSITD_CHEAP_SANITIZE "")
if(MSITD_SANITIZE)
  set(MSITD_CHEAP_SANITIZE -O0)
  if(MSITD_SANITIZE MATCHES "undefined")
    list(APPEND MSITD_CHEAP_SANITIZE -fno-sanitize=undefined)
  endif()
endif()

if(MSITD_FUZZ)
  # What libFuzzer looks at to tell new paths from known ones.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
