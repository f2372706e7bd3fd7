# The store links PkgConfig::LIBPQ, whose pipelines came with version 14.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(LIBPQ IMPORTED_TARGET libpq>=14)
  endif()
  if(TARGET PkgConfig::LIBPQ)
    set(found ON)
  endif()
endif()
holdfast_store(postgres
  FOUND ${found}
  NEEDS "libpq 14 or later (libpq-dev)"
  STATIC_REQUIRES libpq
  STATIC_FIND "find_dependency(PkgConfig)
  pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)")
