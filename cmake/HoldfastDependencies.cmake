# What comes from the system, and which stores it allows. Nothing here touches the network.

find_package(Threads REQUIRED)

# holdfast::asio: standalone Asio, headers only.
find_path(HOLDFAST_ASIO_INCLUDE_DIR asio.hpp)
mark_as_advanced(HOLDFAST_ASIO_INCLUDE_DIR)
add_library(holdfast_asio INTERFACE)
add_library(holdfast::asio ALIAS holdfast_asio)
target_link_libraries(holdfast_asio INTERFACE Threads::Threads)
if(HOLDFAST_ASIO_INCLUDE_DIR)
  target_include_directories(holdfast_asio SYSTEM INTERFACE "${HOLDFAST_ASIO_INCLUDE_DIR}")
endif()

set(HOLDFAST_STORES memory)
set_property(GLOBAL PROPERTY HOLDFAST_SUMMARY "memory;ON;always built")

# Decides about an optional store: sets HOLDFAST_HAVE_<STORE>, fails when ON cannot be had.
function(holdfast_decide_store name found what)
  string(TOUPPER "${name}" upper)
  set(wish "${HOLDFAST_WITH_${upper}}")
  set(have OFF)
  if(NOT wish MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "HOLDFAST_WITH_${upper} is '${wish}': use AUTO, ON or OFF")
  elseif(wish STREQUAL "OFF")
    set(why "switched off (HOLDFAST_WITH_${upper}=OFF)")
  elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/stores/${name}/CMakeLists.txt")
    set(why "src/stores/${name} is not in this tree")
  elseif(found)
    set(have ON)
    set(why "${what} found")
  elseif(wish STREQUAL "ON")
    message(FATAL_ERROR "HOLDFAST_WITH_${upper}=ON, but ${what} was not found")
  else()
    set(why "${what} not found")
  endif()
  set(HOLDFAST_HAVE_${upper} ${have} PARENT_SCOPE)
  if(have)
    set(HOLDFAST_STORES ${HOLDFAST_STORES} ${name} PARENT_SCOPE)
    add_compile_definitions(HOLDFAST_HAVE_${upper}=1)
  endif()
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_SUMMARY "${name};${have};${why}")
endfunction()

if(NOT HOLDFAST_WITH_SQLITE STREQUAL "OFF")
  find_package(SQLite3 3.35)
endif()
holdfast_decide_store(sqlite "${SQLite3_FOUND}" "SQLite 3.35 or later (libsqlite3-dev)")

# A module of it links PkgConfig::HIREDIS (the reader and formatter of its protocol), holdfast::asio,
# OpenSSL::SSL and OpenSSL::Crypto.
set(holdfast_redis_found OFF)
if(NOT HOLDFAST_WITH_REDIS STREQUAL "OFF")
  find_package(OpenSSL 3.0)
  find_package(PkgConfig)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(HIREDIS IMPORTED_TARGET hiredis>=0.14)
  endif()
  if(TARGET PkgConfig::HIREDIS)
    # Debian's asks everybody for -D_FILE_OFFSET_BITS=64, which precompiled headers are not made with.
    set_target_properties(PkgConfig::HIREDIS PROPERTIES INTERFACE_COMPILE_OPTIONS "")
  endif()
  find_package(nlohmann_json QUIET)
  if(TARGET PkgConfig::HIREDIS AND OPENSSL_FOUND AND HOLDFAST_ASIO_INCLUDE_DIR
      AND nlohmann_json_FOUND)
    set(holdfast_redis_found ON)
  endif()
endif()
holdfast_decide_store(redis "${holdfast_redis_found}"
  "hiredis, OpenSSL 3, Asio and nlohmann-json (libhiredis-dev, libssl-dev, libasio-dev, \
nlohmann-json3-dev)")

function(holdfast_print_summary)
  get_property(rows GLOBAL PROPERTY HOLDFAST_SUMMARY)
  message(STATUS "Holdfast ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
    "${CMAKE_CXX_COMPILER_VERSION}")
  message(STATUS "  store       built  why")
  while(rows)
    list(POP_FRONT rows name have why)
    string(LENGTH "${name}" width)
    math(EXPR pad "12 - ${width}")
    string(REPEAT " " ${pad} gap)
    string(SUBSTRING "${have}    " 0 5 have)
    message(STATUS "  ${name}${gap}${have}  ${why}")
  endwhile()
  message(STATUS "  tests ${HOLDFAST_BUILD_TESTS}, bench ${HOLDFAST_BUILD_BENCH}, examples "
    "${HOLDFAST_BUILD_EXAMPLES}, program ${HOLDFAST_BUILD_CLI}, sanitizers "
    "[${HOLDFAST_SANITIZE}]")
endfunction()

if(HOLDFAST_BUILD_CLI)
  find_package(CLI11 QUIET)
  find_package(nlohmann_json QUIET)
  find_package(tomlplusplus QUIET)
endif()
if(HOLDFAST_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck QUIET)
  find_package(nlohmann_json QUIET)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
if(HOLDFAST_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
