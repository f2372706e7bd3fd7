# The store links holdfast::asio, which is headers only.
set(found OFF)
if(HOLDFAST_STORE_WANTED AND HOLDFAST_ASIO_INCLUDE_DIR)
  set(found ON)
endif()
holdfast_store(failover
  FOUND ${found}
  NEEDS "Asio (libasio-dev)")
