# The store links PkgConfig::HIREDIS (the reader and formatter of its protocol), holdfast::asio,
# OpenSSL::SSL and OpenSSL::Crypto.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
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
    set(found ON)
  endif()
endif()
holdfast_store(redis
  FOUND ${found}
  NEEDS "hiredis, OpenSSL 3, Asio and nlohmann-json (libhiredis-dev, libssl-dev, libasio-dev, \
nlohmann-json3-dev)"
  STATIC_REQUIRES hiredis libssl libcrypto
  STATIC_FIND "find_dependency(OpenSSL)
  find_dependency(PkgConfig)
  pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)")
