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

# Decides about a part that may be left out, as HOLDFAST_WITH_<PART> wishes: sets HOLDFAST_HAVE_<PART>,
# fails when ON cannot be had.
function(holdfast_decide part found what)
  string(TOUPPER "${part}" upper)
  set(wish "${HOLDFAST_WITH_${upper}}")
  set(have OFF)
  if(NOT wish MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "HOLDFAST_WITH_${upper} is '${wish}': use AUTO, ON or OFF")
  elseif(wish STREQUAL "OFF")
    set(why "switched off (HOLDFAST_WITH_${upper}=OFF)")
  elseif(found)
    set(have ON)
    set(why "${what} found")
  elseif(wish STREQUAL "ON")
    message(FATAL_ERROR "HOLDFAST_WITH_${upper}=ON, but ${what} was not found")
  else()
    set(why "${what} not found")
  endif()
  set(HOLDFAST_HAVE_${upper} ${have} PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_SUMMARY "${part};${have};${why}")
endfunction()

macro(holdfast_decide_store name found what)
  holdfast_decide(${name} "${found}" "${what}")
  string(TOUPPER "HOLDFAST_HAVE_${name}" holdfast_have)
  if(${holdfast_have})
    list(APPEND HOLDFAST_STORES ${name})
    add_compile_definitions(${holdfast_have}=1)
  endif()
endmacro()

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

# A module of it links ${HOLDFAST_ZOOKEEPER_LIBRARY}: the C client with threads of its own.
set(holdfast_zookeeper_found OFF)
if(NOT HOLDFAST_WITH_ZOOKEEPER STREQUAL "OFF")
  find_path(HOLDFAST_ZOOKEEPER_INCLUDE_DIR zookeeper/zookeeper.h)
  find_library(HOLDFAST_ZOOKEEPER_LIBRARY zookeeper_mt)
  mark_as_advanced(HOLDFAST_ZOOKEEPER_INCLUDE_DIR HOLDFAST_ZOOKEEPER_LIBRARY)
  if(HOLDFAST_ZOOKEEPER_INCLUDE_DIR AND HOLDFAST_ZOOKEEPER_LIBRARY AND HOLDFAST_ASIO_INCLUDE_DIR)
    set(holdfast_zookeeper_found ON)
  endif()
endif()
holdfast_decide_store(zookeeper "${holdfast_zookeeper_found}"
  "the ZooKeeper C client and Asio (libzookeeper-mt-dev, libasio-dev)")
set(holdfast_consul_found OFF)
if(NOT HOLDFAST_WITH_CONSUL STREQUAL "OFF")
  # 7.80 tells before each try to send, which keeps it from sending twice.
  find_package(CURL 7.80)
  find_package(nlohmann_json QUIET)
  if(TARGET CURL::libcurl AND HOLDFAST_ASIO_INCLUDE_DIR AND nlohmann_json_FOUND)
    set(holdfast_consul_found ON)
  endif()
endif()
holdfast_decide_store(consul "${holdfast_consul_found}"
  "libcurl 7.80, Asio and nlohmann-json (libcurl4-openssl-dev, libasio-dev, nlohmann-json3-dev)")

# A module of it links PkgConfig::GRPCPP and reads what protoc makes of its own .proto file.
set(holdfast_etcd_found OFF)
if(NOT HOLDFAST_WITH_ETCD STREQUAL "OFF")
  find_package(PkgConfig QUIET)
  find_program(HOLDFAST_PROTOC protoc)
  mark_as_advanced(HOLDFAST_PROTOC)
  if(PKG_CONFIG_FOUND)
    include(holdfastGrpc)
  endif()
  if(TARGET PkgConfig::GRPCPP AND HOLDFAST_PROTOC AND HOLDFAST_ASIO_INCLUDE_DIR)
    set(holdfast_etcd_found ON)
    # Of the dozens of libraries that it names a program needs a few, each of which takes time to load.
    set_property(TARGET PkgConfig::GRPCPP APPEND PROPERTY
      INTERFACE_LINK_OPTIONS "LINKER:--as-needed")
  endif()
endif()
holdfast_decide_store(etcd "${holdfast_etcd_found}"
  "gRPC 1.51, Protocol Buffers 3.21 and protoc (libgrpc++-dev, libprotobuf-dev, protobuf-compiler)")

# The guards in databases (src/fence/<name>), each a small library of its own: libholdfast needs none
# of these.
set(HOLDFAST_FENCES)
macro(holdfast_decide_fence name found what)
  holdfast_decide(fence_${name} "${found}" "${what}")
  string(TOUPPER "HOLDFAST_HAVE_FENCE_${name}" holdfast_have)
  if(${holdfast_have})
    list(APPEND HOLDFAST_FENCES ${name})
  endif()
endmacro()

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND AND NOT HOLDFAST_WITH_FENCE_POSTGRES STREQUAL "OFF")
  pkg_check_modules(LIBPQ IMPORTED_TARGET libpq>=13)
endif()
if(PKG_CONFIG_FOUND AND NOT HOLDFAST_WITH_FENCE_MYSQL STREQUAL "OFF")
  pkg_check_modules(LIBMARIADB IMPORTED_TARGET libmariadb>=3.1)
endif()
if(NOT HOLDFAST_WITH_FENCE_SQLITE STREQUAL "OFF" AND NOT SQLite3_FOUND)
  find_package(SQLite3 3.35 QUIET)
endif()
holdfast_decide_fence(postgres "${LIBPQ_FOUND}" "libpq 13 or later (libpq-dev)")
holdfast_decide_fence(mysql "${LIBMARIADB_FOUND}" "libmariadb 3.1 or later (libmariadb-dev)")
holdfast_decide_fence(sqlite "${SQLite3_FOUND}" "SQLite 3.35 or later (libsqlite3-dev)")

# The exporter (src/prometheus), a small library of its own, too.
if(PKG_CONFIG_FOUND AND NOT HOLDFAST_WITH_PROMETHEUS STREQUAL "OFF")
  pkg_check_modules(PROMETHEUS IMPORTED_TARGET prometheus-cpp-core>=1.0)
endif()
holdfast_decide(prometheus "${PROMETHEUS_FOUND}" "prometheus-cpp 1.0 or later (prometheus-cpp-dev)")

function(holdfast_print_summary)
  get_property(rows GLOBAL PROPERTY HOLDFAST_SUMMARY)
  message(STATUS "Holdfast ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} "
    "${CMAKE_CXX_COMPILER_VERSION}")
  message(STATUS "  part            built  why")
  while(rows)
    list(POP_FRONT rows name have why)
    string(LENGTH "${name}" width)
    math(EXPR pad "16 - ${width}")
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
  if(NOT HOLDFAST_WITH_CURSES STREQUAL "OFF")
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
      pkg_check_modules(NCURSESW IMPORTED_TARGET QUIET ncursesw)
    endif()
  endif()
  holdfast_decide(curses "${NCURSESW_FOUND}" "ncursesw (libncurses-dev)")
  if(HOLDFAST_HAVE_CURSES)
    # Debian's asks for feature macros that g++ sets anyway, and precompiled headers lack.
    set_target_properties(PkgConfig::NCURSESW PROPERTIES INTERFACE_COMPILE_OPTIONS "")
  endif()
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
