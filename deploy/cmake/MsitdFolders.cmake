# Install directories below the prefix. On Debian, libraries go to the directory of the
# architecture for every prefix, because one build serves both the packages and an
# install below /usr/local.
if(NOT DEFINED CMAKE_INSTALL_LIBDIR AND EXISTS /etc/debian_version AND
   CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE}
      CACHE PATH "Libraries, below the prefix")
endif()
include(GNUInstallDirs)
# Directory of the shared libraries that libmsit and msit load at run time.
set(MSIT_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR}/msit)
