# The store links PkgConfig::GRPCPP and reads what protoc makes of its own .proto file.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
  find_package(PkgConfig QUIET)
  find_program(HOLDFAST_PROTOC protoc)
  mark_as_advanced(HOLDFAST_PROTOC)
  if(PKG_CONFIG_FOUND)
    include("${CMAKE_CURRENT_LIST_DIR}/holdfastGrpc.cmake")
    pkg_check_modules(NGHTTP2 IMPORTED_TARGET libnghttp2>=1.43)
    pkg_check_modules(PROTOBUF IMPORTED_TARGET protobuf-lite>=3.21)
  endif()
  if(TARGET PkgConfig::GRPCPP AND HOLDFAST_PROTOC AND HOLDFAST_ASIO_INCLUDE_DIR)
    set(found ON)
    # Of the dozens of libraries that it names a program needs a few, each of which takes time to load.
    set_property(TARGET PkgConfig::GRPCPP APPEND PROPERTY
      INTERFACE_LINK_OPTIONS "LINKER:--as-needed")
  endif()
endif()
holdfast_store(etcd
  FOUND ${found}
  NEEDS "gRPC 1.51, Protocol Buffers 3.21 and protoc (libgrpc++-dev, libprotobuf-dev, protobuf-compiler)"
  STATIC_REQUIRES grpc++ protobuf-lite
  STATIC_FILES holdfastGrpc.cmake
  STATIC_FIND "find_dependency(PkgConfig)
  include(\"\${CMAKE_CURRENT_LIST_DIR}/holdfastGrpc.cmake\")
  if(NOT TARGET PkgConfig::GRPCPP)
    set(holdfast_FOUND FALSE)
    set(holdfast_NOT_FOUND_MESSAGE
      \"holdfast was built with its etcd store and needs gRPC 1.51 and Protocol Buffers 3.21 (libgrpc++-dev, libprotobuf-dev)\")
    return()
  endif()")
