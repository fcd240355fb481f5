# Most of the time of a small source goes into headers of others, a hundred
# thousand lines and more. A build of everything is half the work if several
# sources of a target are compiled at once, in the order in which the target lists
# them; a build after a change is faster without.
option(MSITD_BATCHES "Compile several sources of a target at once" OFF)
set(MSITD_BATCH_SIZE 8)

# msitd_batch(TARGET [ALONE SOURCES...]) has the sources of a target, but for
# these, compiled in batches. CMake itself leaves out those with flags of their
# own.
function(msitd_batch target)
  cmake_parse_arguments(arg "" "" "ALONE" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  if(arg_ALONE)
    list(REMOVE_ITEM sources ${arg_ALONE})
    set_source_files_properties(${arg_ALONE} PROPERTIES
                                SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(LENGTH sources count)
  if(MSITD_BATCHES AND count GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON
                          UNITY_BUILD_BATCH_SIZE ${MSITD_BATCH_SIZE})
  endif()
endfunction()

# msitd_library(NAME [SOURCES...] [ALONE SOURCES...] DEPS...) makes the static
# library of one module. ALONE: what is in no batch, most often because another
# source of the batch has a name of its anonymous namespace too.
function(msitd_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;ALONE;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES} ${arg_ALONE})
  target_link_libraries(${name} PUBLIC msitd_flags ${arg_DEPS})
  msitd_batch(${name} ALONE ${arg_ALONE})
endfunction()

# Everything that runs under ThreadSanitizer.
add_custom_target(msitd_tsan_tests)
# The tests of what reads bytes of others, which the lane border builds alone.
add_custom_target(msitd_border_tests)

# msitd_test(NAME [BORDER] [SOURCES...] [ALONE SOURCES...] DEPS... LABELS...)
# makes one GoogleTest binary of a module and registers each of its tests with ctest.
# Two labels keep it from ThreadSanitizer: `grpc` if it runs gRPC, which Debian
# builds without it, and `sequential` if all that it tests runs in one thread.
# BORDER: it tests code that reads bytes of others. ALONE: as for a library.
function(msitd_test name)
  cmake_parse_arguments(arg "BORDER" "" "SOURCES;ALONE;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} ${arg_ALONE})
  target_link_libraries(${name} PRIVATE msitd_flags ${arg_DEPS} GTest::gmock
                                        GTest::gtest_main)
  msitd_batch(${name} ALONE ${arg_ALONE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_BINARY_DIR}/tests)
  if(arg_BORDER)
    add_dependencies(msitd_border_tests ${name})
  endif()
  # gtest_discover_tests passes one label on.
  if("grpc" IN_LIST arg_LABELS)
    set(arg_LABELS grpc)
  elseif("sequential" IN_LIST arg_LABELS)
    set(arg_LABELS sequential)
  else()
    add_dependencies(msitd_tsan_tests ${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 300 LABELS "${arg_LABELS}")
endfunction()
