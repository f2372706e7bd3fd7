# What `cmake --install` lays out: headers, both libraries, the modules of the stores, the CMake
# package, the pkg-config files, the program with its manual page and shell completions.
#
# Every rule names the Debian package that its files go into (cmake/HoldfastPackage.cmake).

include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

if(NOT TARGET holdfast)
  return()
endif()

# One marker per store: linking holdfast::sqlite says that the program needs that store, and the
# target exists only when this build has it. The marker of the lock service's store is
# holdfast::service, because holdfast::holdfast is the library.
set(holdfast_components)
foreach(store IN LISTS HOLDFAST_STORES)
  add_library(holdfast_component_${store} INTERFACE)
  string(REGEX REPLACE "^holdfast$" "service" component "${store}")
  set_target_properties(holdfast_component_${store} PROPERTIES EXPORT_NAME ${component})
  target_link_libraries(holdfast_component_${store} INTERFACE holdfast)
  list(APPEND holdfast_components holdfast_component_${store})
endforeach()

set(holdfast_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")

# From lib/x86_64-linux-gnu/pkgconfig back to the prefix, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  OUTPUT_VARIABLE HOLDFAST_PC_PREFIX)

# The guards in databases: a library each, exported by itself, so that only who asks for the
# component needs the database's client library.
set(libraries_postgres PkgConfig::LIBPQ)
set(libraries_mysql PkgConfig::LIBMARIADB)
set(libraries_sqlite SQLite::SQLite3)
set(packages_postgres libpq)
set(packages_mysql libmariadb)
set(packages_sqlite sqlite3)
foreach(fence IN LISTS HOLDFAST_FENCES)
  set(target holdfast_component_fence_${fence})
  add_library(${target} STATIC $<TARGET_OBJECTS:holdfast_fence_${fence}_objects>)
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME holdfast_fence_${fence} EXPORT_NAME fence_${fence}
    # Apart from the module's own, which has this name, too.
    ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/components")
  target_link_libraries(${target} INTERFACE holdfast PRIVATE ${libraries_${fence}})
  install(TARGETS ${target} EXPORT holdfastFence_${fence}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT holdfastFence_${fence} NAMESPACE holdfast::
    DESTINATION "${holdfast_package_dir}")
  set(HOLDFAST_PC_FENCE ${fence})
  set(HOLDFAST_PC_FENCE_REQUIRES ${packages_${fence}})
  configure_file(cmake/holdfast-fence.pc.in
    "${CMAKE_CURRENT_BINARY_DIR}/holdfast-fence-${fence}.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfast-fence-${fence}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
# The exporter, in the same way.
if(HOLDFAST_HAVE_PROMETHEUS)
  add_library(holdfast_component_prometheus STATIC $<TARGET_OBJECTS:holdfast_prometheus_objects>)
  set_target_properties(holdfast_component_prometheus PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME holdfast_prometheus EXPORT_NAME prometheus
    ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/components")
  target_link_libraries(holdfast_component_prometheus
    INTERFACE holdfast PkgConfig::PROMETHEUS)
  install(TARGETS holdfast_component_prometheus EXPORT holdfastPrometheus
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT holdfastPrometheus NAMESPACE holdfast:: DESTINATION "${holdfast_package_dir}")
  configure_file(cmake/holdfast-prometheus.pc.in
    "${CMAKE_CURRENT_BINARY_DIR}/holdfast-prometheus.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfast-prometheus.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
install(DIRECTORY include/holdfast DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(TARGETS holdfast ${holdfast_components} EXPORT holdfastTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT dev)
install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION "${holdfast_package_dir}")
# Exported by itself: only who asks for it needs the development packages of the stores.
install(TARGETS holdfast_static EXPORT holdfastStatic
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT holdfastStatic NAMESPACE holdfast:: DESTINATION "${holdfast_package_dir}")
get_property(holdfast_loaded GLOBAL PROPERTY HOLDFAST_LOADED_STORES)
foreach(store IN LISTS holdfast_loaded)
  install(TARGETS holdfast_loaded_${store}
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/holdfast" COMPONENT store_${store})
endforeach()

configure_package_config_file(cmake/holdfastConfig.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfig.cmake"
  INSTALL_DESTINATION "${holdfast_package_dir}")
# Before 1.0 a minor version may break.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/holdfastConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/holdfastConfigVersion.cmake"
  DESTINATION "${holdfast_package_dir}")

# What a program needs that links libholdfast.a.
list(JOIN HOLDFAST_PC_STATIC_REQUIRES ", " HOLDFAST_PC_STATIC_REQUIRES)
list(JOIN HOLDFAST_PC_STATIC_LIBS " " HOLDFAST_PC_STATIC_LIBS)
configure_file(cmake/holdfast.pc.in "${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc" @ONLY)
configure_file(cmake/holdfast-static.pc.in "${CMAKE_CURRENT_BINARY_DIR}/holdfast-static.pc" @ONLY)
configure_file(cmake/holdfast-asio.pc.in "${CMAKE_CURRENT_BINARY_DIR}/holdfast-asio.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc"
    "${CMAKE_CURRENT_BINARY_DIR}/holdfast-static.pc"
    "${CMAKE_CURRENT_BINARY_DIR}/holdfast-asio.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)
if(TARGET holdfast_cli)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
  install(FILES docs/man/holdfast.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
  install(FILES completions/holdfast.bash RENAME holdfast
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" OPTIONAL)
  install(FILES completions/_holdfast
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" OPTIONAL)
  install(FILES completions/holdfast.fish
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" OPTIONAL)
endif()
