# The store alone, below the public API.
holdfast_test(sqlite_io_faults_test
  SOURCES sqlite_io_faults_test.cc faulty_vfs.cc
  DEPENDS store_sqlite
  LABELS hermetic sqlite TIMEOUT 120)
holdfast_test(sqlite_mount_test
  SOURCES sqlite_mount_test.cc
  DEPENDS store_sqlite
  LABELS process root sqlite)
