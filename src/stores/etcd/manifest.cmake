# The store links PkgConfig::NGHTTP2, PkgConfig::PROTOBUF, OpenSSL and holdfast::asio, and reads what protoc
# makes of its own .proto file.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
  find_package(PkgConfig QUIET)
  find_package(OpenSSL 3.0)
  find_program(HOLDFAST_PROTOC protoc)
  mark_as_advanced(HOLDFAST_PROTOC)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(NGHTTP2 IMPORTED_TARGET libnghttp2>=1.43)
    pkg_check_modules(PROTOBUF IMPORTED_TARGET protobuf-lite>=3.21)
  endif()
  if(TARGET PkgConfig::NGHTTP2 AND TARGET PkgConfig::PROTOBUF AND OPENSSL_FOUND AND HOLDFAST_PROTOC
      AND HOLDFAST_ASIO_INCLUDE_DIR)
    set(found ON)
  endif()
endif()
holdfast_store(etcd
  FOUND ${found}
  NEEDS "nghttp2 1.43, OpenSSL 3, Protocol Buffers 3.21, protoc and Asio (libnghttp2-dev, libssl-dev, \
libprotobuf-dev, protobuf-compiler, libasio-dev)"
  STATIC_REQUIRES libnghttp2 protobuf-lite libssl libcrypto
  STATIC_FIND "find_dependency(OpenSSL)
  find_dependency(PkgConfig)
  pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
  pkg_check_modules(PROTOBUF REQUIRED IMPORTED_TARGET protobuf-lite)")
