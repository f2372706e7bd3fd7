# The store links PkgConfig::LIBMARIADB, as the fence guard does.
set(found OFF)
if(HOLDFAST_STORE_WANTED)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(LIBMARIADB IMPORTED_TARGET libmariadb>=3.1)
  endif()
  if(TARGET PkgConfig::LIBMARIADB)
    set(found ON)
  endif()
endif()
holdfast_store(mysql
  FOUND ${found}
  NEEDS "libmariadb 3.1 or later (libmariadb-dev)"
  STATIC_REQUIRES libmariadb
  STATIC_FIND "find_dependency(PkgConfig)
  pkg_check_modules(LIBMARIADB REQUIRED IMPORTED_TARGET libmariadb)")
