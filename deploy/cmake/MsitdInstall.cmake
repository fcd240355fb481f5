# What `cmake --install` puts where. Each component is a package of its own, see
# MsitdPackages.cmake; the component `python` belongs to the wheel.
#
#   daemon  msitd, its unit, its user and its configuration
#   ctl     msitctl and msitd-inspect, with manuals and completions
#   lib     libmsit.so.1, and what it loads while it runs
#   dev     headers, CMake package, pkg-config
#   compat  the name `msit` for msitctl
include(CMakePackageConfigHelpers)
set(deploy ${PROJECT_SOURCE_DIR}/deploy)

# What the programs say of themselves, and the changelog as packages hold it.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(share ${PROJECT_BINARY_DIR}/share)
set(manuals ${deploy}/manual/make_manuals.py)
add_custom_command(
  OUTPUT ${share}/man/man1/msitctl.1.gz
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
  COMMAND ${Python3_EXECUTABLE} ${manuals} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${share}
  DEPENDS ${manuals} msitd msitctl msitd-inspect
  VERBATIM)
# Made where the programs run as they are shipped.
set(with_all ALL)
if(MSITD_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(with_all "")
endif()
add_custom_target(msitd_manuals ${with_all} DEPENDS ${share}/man/man1/msitctl.1.gz)
execute_process(COMMAND gzip -9nc ${deploy}/debian/changelog
                OUTPUT_FILE ${PROJECT_BINARY_DIR}/changelog.gz
                COMMAND_ERROR_IS_FATAL ANY)
# What users see of each version: the other one is of the packages.
execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md
                OUTPUT_FILE ${PROJECT_BINARY_DIR}/NEWS.gz
                COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                       ${deploy}/debian/changelog
                                       ${PROJECT_SOURCE_DIR}/CHANGELOG.md)

install(TARGETS msitd RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        COMPONENT daemon)
install(FILES ${deploy}/systemd/msitd.sysusers RENAME msitd.conf
        DESTINATION lib/sysusers.d COMPONENT daemon)
install(FILES ${deploy}/systemd/msitd.tmpfiles RENAME msitd.conf
        DESTINATION lib/tmpfiles.d COMPONENT daemon)
# A file that an administrator has changed stays. Packages have it as a conffile.
install(CODE "
  set(config \"\$ENV{DESTDIR}/etc/msitd/msitd.toml\")
  if(NOT EXISTS \"\${config}\")
    configure_file(${deploy}/config/msitd.toml \"\${config}\" COPYONLY)
  endif()" COMPONENT daemon)
# The unit names the program, and the prefix is known at the install only.
install(FILES ${deploy}/systemd/msitd.service ${deploy}/systemd/msitd.socket
        DESTINATION lib/systemd/system
        COMPONENT daemon)
install(CODE "
  set(unit \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/msitd.service\")
  file(READ \"\${unit}\" text)
  string(REPLACE /usr/bin/msitd
         \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/msitd\" text \"\${text}\")
  file(WRITE \"\${unit}\" \"\${text}\")" COMPONENT daemon)

install(FILES ${deploy}/monitoring/alerts.yaml ${deploy}/monitoring/dashboard.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/msitd/monitoring COMPONENT daemon)
install(PROGRAMS ${deploy}/slurm/prolog ${deploy}/slurm/epilog
        DESTINATION ${CMAKE_INSTALL_DATADIR}/msitd/slurm COMPONENT daemon)

install(FILES ${share}/man/man8/msitd.8.gz
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT daemon)

install(TARGETS msitctl msitd-inspect
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ctl)
install(FILES ${share}/man/man1/msitctl.1.gz ${share}/man/man1/msitd-inspect.1.gz
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ctl)
install(DIRECTORY ${share}/bash-completion ${share}/zsh ${share}/fish
        DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT ctl)

target_compile_features(msit INTERFACE cxx_std_20)
install(TARGETS msit EXPORT msit
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
                COMPONENT lib NAMELINK_COMPONENT dev)
install(TARGETS msit_grpc msit_acl msit_acl_feed
        LIBRARY DESTINATION ${MSIT_PLUGIN_DIR} COMPONENT lib)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/msit)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/libmsit/include/msit
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(EXPORT msit NAMESPACE msit:: FILE msit-config.cmake
        DESTINATION ${package_dir} COMPONENT dev)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/msit-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/msit-config-version.cmake
        DESTINATION ${package_dir} COMPONENT dev)
# Relative, so that an install can be moved.
file(RELATIVE_PATH msit_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" msit_pc_prefix ${msit_pc_prefix})
configure_file(${deploy}/cmake/msit.pc.in ${PROJECT_BINARY_DIR}/msit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/msit.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

install(CODE "
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  file(MAKE_DIRECTORY \"\${folder}\")
  file(CREATE_LINK msitctl \"\${folder}/msit\" SYMBOLIC)" COMPONENT compat)
install(FILES ${share}/man/man1/msit.1.gz
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT compat)
