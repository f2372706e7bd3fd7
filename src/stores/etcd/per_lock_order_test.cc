#include "src/stores/etcd/per_lock_order.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace holdfast::stores::etcd {
namespace {

using machine::AcquisitionId;
using Kind = PerLockOrder::Kind;

class EtcdPerLockOrderTest : public testing::Test {
 protected:
  void run(const std::string& what, Kind kind, std::uint64_t id, const std::string& lock = "a") {
    order_.run(lock, kind, AcquisitionId{0, id}, [this, what](std::function<void()> finished) {
      running_[what] = std::move(finished);
      begun_ += what;
    });
  }
  void finish(const std::string& what) {
    const auto done = running_.at(what);
    running_.erase(what);
    done();
  }

  PerLockOrder order_;
  std::map<std::string, std::function<void()>> running_;
  std::string begun_;
};

TEST_F(EtcdPerLockOrderTest, RequestsAboutDifferentContendersRunSideBySide) {
  run("1", Kind::kEnter, 1);
  run("2", Kind::kOther, 2);
  run("3", Kind::kRemove, 3);
  EXPECT_EQ(begun_, "123");
}

TEST_F(EtcdPerLockOrderTest, EntriesKeepTheirOrder) {
  run("1", Kind::kEnter, 1);
  run("2", Kind::kEnter, 2);
  EXPECT_EQ(begun_, "1");
  finish("1");
  EXPECT_EQ(begun_, "12");
}

TEST_F(EtcdPerLockOrderTest, ACancelIsBehindItsEntry) {
  run("e", Kind::kEnter, 1);
  run("r", Kind::kRemove, 1);
  EXPECT_EQ(begun_, "e");
  finish("e");
  EXPECT_EQ(begun_, "er");
}

TEST_F(EtcdPerLockOrderTest, AnEntryIsBehindARemovalOfItsLockOnly) {
  run("r", Kind::kRemove, 1);
  run("e", Kind::kEnter, 2);
  run("o", Kind::kEnter, 3, "another");
  EXPECT_EQ(begun_, "ro");
  finish("r");
  EXPECT_EQ(begun_, "roe");
}

TEST_F(EtcdPerLockOrderTest, AStepOfSeveralKeysIsAlone) {
  run("e", Kind::kEnter, 1);
  run("s", Kind::kStep, 0);
  run("f", Kind::kEnter, 2);
  EXPECT_EQ(begun_, "e");
  finish("e");
  EXPECT_EQ(begun_, "es");
  finish("s");
  EXPECT_EQ(begun_, "esf");
}

}  // namespace
}  // namespace holdfast::stores::etcd
