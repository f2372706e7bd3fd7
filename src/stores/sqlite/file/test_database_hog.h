// For tests: a process that keeps a database locked.
#pragma once

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::sqlite::testing {

// Keeps the database's write lock from lock() to let_go(). Made before this process opens it.
class Hog {
 public:
  explicit Hog(const std::string& path) {
    if (::pipe(told_) != 0 || ::pipe(asked_) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(30);
    char byte = 0;
    // The file is there when the first byte comes.
    if (::read(asked_[0], &byte, 1) != 1) ::_exit(1);
    sqlite3* database = nullptr;
    const bool locked =
        sqlite3_open(path.c_str(), &database) == SQLITE_OK &&
        sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK;
    if (!locked || ::write(told_[1], &byte, 1) != 1) ::_exit(2);
    if (::read(asked_[0], &byte, 1) != 1) ::_exit(3);
    ::_exit(sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr));
  }
  ~Hog() {
    for (const int fd : {told_[0], told_[1], asked_[0], asked_[1]}) ::close(fd);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

  void lock() const {
    char byte = 'l';
    ASSERT_EQ(::write(asked_[1], &byte, 1), 1);
    ASSERT_EQ(::read(told_[0], &byte, 1), 1);
  }
  void let_go() const {
    const char byte = 'u';
    ASSERT_EQ(::write(asked_[1], &byte, 1), 1);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
    ASSERT_EQ(status, 0);
  }

 private:
  int told_[2] = {};
  int asked_[2] = {};
  pid_t pid_ = -1;
};

}  // namespace holdfast::stores::sqlite::testing
