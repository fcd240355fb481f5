# Where an install puts things, below its prefix. Debian's folder of libraries is
# that of the architecture, whatever the prefix is: packages are made from the same
# build as an install below /usr/local.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND EXISTS /etc/debian_version AND
   CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE}
      CACHE PATH "Libraries, below the prefix")
endif()
include(GNUInstallDirs)
# What libmsit and msit load while they run.
set(MSIT_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/msit)
