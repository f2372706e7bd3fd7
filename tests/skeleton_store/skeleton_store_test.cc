// The skeleton of docs/internals/write-a-store.md keeps the rules of the store port.
#include "tests/skeleton_store/skeleton_store.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/skeleton_store/manifest.h"

namespace holdfast::stores {
namespace {

// Runs what was posted when the test says so.
class HandLoop final : public port::Loop {
 public:
  void post(port::Task task) override { tasks_.push_back(std::move(task)); }
  void run() {
    for (auto& task : std::exchange(tasks_, {})) task();
  }

 private:
  std::vector<port::Task> tasks_;
};

Result<std::unique_ptr<port::Store>> open(const char* text, HandLoop& loop) {
  auto url = port::StoreUrl::parse(text);
  if (!url) return url.error();
  port::StoreContext context;
  context.loop = &loop;
  return make_skeleton_store(*std::move(url), context);
}

TEST(SkeletonStoreTest, AnOperationAnswersOnceOnTheLoopAndSaysWhyItCannot) {
  HandLoop loop;
  const auto store = open("skeleton://host?connect_timeout=1s", loop).value();
  int answers = 0;
  Errc code{};
  const auto done = [&](const Result<port::AcquisitionState>& result) {
    ++answers;
    code = result.error().code();
  };
  store->acquire({}, done);
  EXPECT_EQ(answers, 0) << "a completion is never called inline";
  loop.run();
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(code, Errc::kUnsupported);
  store->close(base::BootInstant::max());
  store->acquire({}, done);
  loop.run();
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(code, Errc::kClosed);
}

TEST(SkeletonStoreTest, AnOptionThatNobodyKnowsIsRefused) {
  HandLoop loop;
  const auto store = open("skeleton://host?conect_timeout=1s", loop);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Errc::kInvalidArgument);
  EXPECT_NE(store.error().message().find("conect_timeout"), std::string::npos);
}

TEST(SkeletonStoreTest, TheManifestNamesTheStore) {
  HandLoop loop;
  const auto store = open("skeleton://host", loop).value();
  EXPECT_EQ(store->guarantees().store, stores::skeleton::kManifest.name);
  EXPECT_TRUE(stores::skeleton::kManifest.url_starts.front().starts_with("skeleton:"));
}

}  // namespace
}  // namespace holdfast::stores
