set(found OFF)
if(HOLDFAST_STORE_WANTED)
  # 7.80 tells before each try to send, which keeps it from sending twice.
  find_package(CURL 7.80)
  find_package(nlohmann_json QUIET)
  if(TARGET CURL::libcurl AND HOLDFAST_ASIO_INCLUDE_DIR AND nlohmann_json_FOUND)
    set(found ON)
  endif()
endif()
# STATIC_LIBS, since the file of pkg-config asks for the development packages of all that libcurl uses.
holdfast_store(consul
  FOUND ${found}
  NEEDS "libcurl 7.80, Asio and nlohmann-json (libcurl4-openssl-dev, libasio-dev, nlohmann-json3-dev)"
  STATIC_LIBS -lcurl
  STATIC_FIND "find_dependency(CURL)")
