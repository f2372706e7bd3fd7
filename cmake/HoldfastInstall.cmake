# What `cmake --install` lays out: headers, both libraries, the CMake package, the pkg-config file,
# the program with its manual page and shell completions.

include(CMakePackageConfigHelpers)

if(NOT TARGET holdfast)
  return()
endif()

# One marker per store: linking holdfast::sqlite says that the program needs that store, and the
# target exists only when this build has it.
set(holdfast_components)
foreach(store IN LISTS HOLDFAST_STORES)
  add_library(holdfast_component_${store} INTERFACE)
  set_target_properties(holdfast_component_${store} PROPERTIES EXPORT_NAME ${store})
  target_link_libraries(holdfast_component_${store} INTERFACE holdfast)
  list(APPEND holdfast_components holdfast_component_${store})
endforeach()

set(holdfast_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/holdfast")
install(DIRECTORY include/holdfast DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h")
install(TARGETS holdfast holdfast_static ${holdfast_components} EXPORT holdfastTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT holdfastTargets NAMESPACE holdfast:: DESTINATION "${holdfast_package_dir}")

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

set(HOLDFAST_PC_REQUIRES_PRIVATE)
if(HOLDFAST_HAVE_SQLITE)
  list(APPEND HOLDFAST_PC_REQUIRES_PRIVATE sqlite3)
endif()
if(HOLDFAST_HAVE_REDIS)
  list(APPEND HOLDFAST_PC_REQUIRES_PRIVATE hiredis libssl libcrypto)
endif()
list(JOIN HOLDFAST_PC_REQUIRES_PRIVATE ", " HOLDFAST_PC_REQUIRES_PRIVATE)
# From lib/x86_64-linux-gnu/pkgconfig back to the prefix, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig"
  OUTPUT_VARIABLE HOLDFAST_PC_PREFIX)
configure_file(cmake/holdfast.pc.in "${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc" @ONLY)
configure_file(cmake/holdfast-asio.pc.in "${CMAKE_CURRENT_BINARY_DIR}/holdfast-asio.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc"
    "${CMAKE_CURRENT_BINARY_DIR}/holdfast-asio.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)
if(TARGET holdfast_cli)
  install(FILES docs/man/holdfast.1 DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" OPTIONAL)
  install(FILES completions/holdfast.bash RENAME holdfast
    DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" OPTIONAL)
  install(FILES completions/_holdfast
    DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" OPTIONAL)
  install(FILES completions/holdfast.fish
    DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" OPTIONAL)
endif()
