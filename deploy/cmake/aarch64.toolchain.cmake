# Toolchain for cross compilation to aarch64. MSITD_SYSROOT is a folder with the libraries
# of Debian 12 for arm64, created by `deploy/aarch64-root`. Tests run under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MSITD_SYSROOT)
if(NOT IS_DIRECTORY "${MSITD_SYSROOT}")
  message(FATAL_ERROR "MSITD_SYSROOT is not a folder; create it with deploy/aarch64-root FOLDER")
endif()

set(CMAKE_SYSROOT ${MSITD_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${MSITD_SYSROOT})

# Programs such as protoc are found on this machine, all other files in the sysroot.
set(CMAKE_FIND_ROOT_PATH ${MSITD_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MSITD_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
    ${MSITD_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MSITD_SYSROOT}/usr/share/pkgconfig)
