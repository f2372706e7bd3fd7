# Makes the target PkgConfig::GRPCPP, where gRPC 1.51 and Protocol Buffers 3.21 are there. Used by the
# build and by the installed package.
#
# pkg_check_modules() asks pkg-config a dozen times, and of gRPC's hundred packages each answer takes
# it a second or more. This asks once, and keeps the answer.

if(NOT TARGET PkgConfig::GRPCPP)
  if(NOT HOLDFAST_GRPC_FLAGS)
    execute_process(
      COMMAND "${PKG_CONFIG_EXECUTABLE}" --cflags --libs "grpc++ >= 1.51" "protobuf-lite >= 3.21"
      RESULT_VARIABLE holdfast_grpc_missing OUTPUT_VARIABLE holdfast_grpc_flags ERROR_QUIET
      OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(holdfast_grpc_missing EQUAL 0)
      set(HOLDFAST_GRPC_FLAGS "${holdfast_grpc_flags}" CACHE INTERNAL "What pkg-config said of gRPC")
    endif()
  endif()
  if(HOLDFAST_GRPC_FLAGS)
    add_library(PkgConfig::GRPCPP INTERFACE IMPORTED)
    separate_arguments(holdfast_grpc_flags UNIX_COMMAND "${HOLDFAST_GRPC_FLAGS}")
    foreach(holdfast_grpc_flag IN LISTS holdfast_grpc_flags)
      if(holdfast_grpc_flag MATCHES "^-I(.+)")
        target_include_directories(PkgConfig::GRPCPP SYSTEM INTERFACE "${CMAKE_MATCH_1}")
      elseif(holdfast_grpc_flag MATCHES "^-[lLW]")
        target_link_libraries(PkgConfig::GRPCPP INTERFACE "${holdfast_grpc_flag}")
      else()
        target_compile_options(PkgConfig::GRPCPP INTERFACE "${holdfast_grpc_flag}")
      endif()
    endforeach()
  endif()
endif()
