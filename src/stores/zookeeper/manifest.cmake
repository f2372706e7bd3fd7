# The store links ${HOLDFAST_ZOOKEEPER_LIBRARY}: the C client with threads of its own.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
  find_path(HOLDFAST_ZOOKEEPER_INCLUDE_DIR zookeeper/zookeeper.h)
  find_library(HOLDFAST_ZOOKEEPER_LIBRARY zookeeper_mt)
  mark_as_advanced(HOLDFAST_ZOOKEEPER_INCLUDE_DIR HOLDFAST_ZOOKEEPER_LIBRARY)
  if(HOLDFAST_ZOOKEEPER_INCLUDE_DIR AND HOLDFAST_ZOOKEEPER_LIBRARY AND HOLDFAST_ASIO_INCLUDE_DIR)
    set(found ON)
  endif()
endif()
holdfast_store(zookeeper
  FOUND ${found}
  NEEDS "the ZooKeeper C client and Asio (libzookeeper-mt-dev, libasio-dev)"
  STATIC_LIBS -lzookeeper_mt)
