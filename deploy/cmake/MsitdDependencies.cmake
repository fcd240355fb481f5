# Finds all dependencies, which are packages of Debian 12.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(spdlog REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_package(yaml-cpp REQUIRED)
pkg_check_modules(libdeflate REQUIRED IMPORTED_TARGET libdeflate)

if(MSITD_BUILD_DAEMON)
  find_package(RocksDB CONFIG REQUIRED)
  find_package(CURL REQUIRED)
  find_package(hwy REQUIRED)
  find_package(tomlplusplus REQUIRED)
  find_package(nlohmann_json REQUIRED)
  pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
endif()
if(MSITD_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# XXH3 is used as a header-only library, so that it is compiled with our flags
# and libmsit exports none of its symbols. The parts of Highway that libmsit uses
# are header-only as well, because Debian's Highway is a shared library.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED)
