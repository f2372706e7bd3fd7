# The store reaches its server with the parts of the redis store.
set(found OFF)
if(HOLDFAST_STORE_WANTED AND HOLDFAST_HAVE_REDIS)
  set(found ON)
endif()
holdfast_store(holdfast
  FOUND ${found}
  NEEDS "the redis store (libhiredis-dev, libssl-dev, libasio-dev, nlohmann-json3-dev)")
