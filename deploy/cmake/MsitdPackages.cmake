# Debian packages, one for each component of MsitdInstall.cmake. `cpack` in a build
# directory builds them; deploy/package builds these and the wheels.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME msitd)
set(CPACK_PACKAGE_VENDOR msitd)
set(CPACK_PACKAGE_CONTACT "msitd <msitd@invalid.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL daemon ctl lib dev compat)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

# Each package requires the same version of the packages that it depends on.
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_COMPONENT_DEV_DEPENDS lib)
set(CPACK_COMPONENT_COMPAT_DEPENDS ctl)

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME msitd)
set(CPACK_DEBIAN_DAEMON_DESCRIPTION "tensor store and comparison daemon
One msitd on each node stores the tensors that the ranks of a job record, and
serves queries, reductions and comparisons of runs.")
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS
    "systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_DAEMON_PACKAGE_RECOMMENDS msitctl)
set(scripts ${PROJECT_SOURCE_DIR}/deploy/debian)
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
    ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm ${scripts}/conffiles)

set(CPACK_DEBIAN_CTL_PACKAGE_NAME msitctl)
set(CPACK_DEBIAN_CTL_DESCRIPTION "queries and compares runs of msitd
The command msitctl queries a local or remote msitd for tensors, reductions and
comparisons. The command msitd-inspect reads a store without the daemon.")
set(CPACK_DEBIAN_CTL_PACKAGE_SECTION science)
# Comparisons of plain files start a private daemon.
set(CPACK_DEBIAN_CTL_PACKAGE_RECOMMENDS msitd)

set(CPACK_DEBIAN_LIB_PACKAGE_NAME libmsit1)
set(CPACK_DEBIAN_LIB_DESCRIPTION "records tensors of a process into msitd
With this library, a program such as a rank of a job passes its tensors to
msitd. Each tensor is copied once.")
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
configure_file(${scripts}/shlibs.in ${PROJECT_BINARY_DIR}/debian/shlibs @ONLY)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/debian/shlibs ${scripts}/triggers)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmsit-dev)
set(CPACK_DEBIAN_DEV_DESCRIPTION "records tensors into msitd, for developers
Header files for C and C++, and packages for CMake and pkg-config.")
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)

set(CPACK_DEBIAN_COMPAT_PACKAGE_NAME msit-compat)
set(CPACK_DEBIAN_COMPAT_DESCRIPTION "msitd under the names of other tools
The commands msit and msprobe accept the commands of the tools of these names,
and run them with msitctl and msitd.")
set(CPACK_DEBIAN_COMPAT_PACKAGE_SECTION science)
# For msit llm analyze and bcanalyze.
set(CPACK_DEBIAN_COMPAT_PACKAGE_SUGGESTS python3-pandas)

foreach(component daemon ctl lib dev compat)
  string(TOUPPER ${component} upper)
  set(doc share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  install(FILES ${scripts}/copyright ${PROJECT_BINARY_DIR}/changelog.gz
                ${PROJECT_BINARY_DIR}/NEWS.gz
          DESTINATION ${doc} COMPONENT ${component})
endforeach()
include(CPack)
