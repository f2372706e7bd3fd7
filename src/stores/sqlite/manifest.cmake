if(HOLDFAST_STORE_WANTED)
  find_package(SQLite3 3.35)
endif()
holdfast_store(sqlite
  FOUND "${SQLite3_FOUND}"
  NEEDS "SQLite 3.35 or later (libsqlite3-dev)"
  STATIC_REQUIRES sqlite3
  STATIC_FIND "find_dependency(SQLite3)")
