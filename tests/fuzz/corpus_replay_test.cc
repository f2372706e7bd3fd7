// Every input that was ever of interest, through every fuzz target, in an ordinary test.

#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/target.h"

namespace holdfast::fuzz {
namespace {

namespace fs = std::filesystem;

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

// The copy has exactly its size, so that the address sanitizer sees a read beyond it.
class Bytes {
 public:
  explicit Bytes(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    size_ = all.size();
    data_ = std::make_unique<char[]>(size_);
    std::memcpy(data_.get(), all.data(), size_);
  }
  std::string_view view(std::size_t most) const { return {data_.get(), std::min(size_, most)}; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
};

void replay(Target target, std::string_view input) {
  try {
    target(input);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

std::vector<fs::path> inputs_of(const std::string& name) {
  std::vector<fs::path> found;
  const fs::path folder = fs::path(HOLDFAST_FUZZ_CORPUS) / name;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

TEST(CorpusReplayTest, NoInputOfACorpusBreaksItsTarget) {
  for (const auto& [name, target] : targets()) {
    const std::vector<fs::path> inputs = inputs_of(name);
    EXPECT_GE(inputs.size(), 4U) << "corpus/" << name;
    for (const fs::path& path : inputs) {
      SCOPED_TRACE(name + "/" + path.filename().string());
      replay(target, Bytes(path).view(SIZE_MAX));
    }
  }
}

// Any beginning of an input, as a line that was cut off leaves it.
TEST(CorpusReplayTest, NorDoesAnyBeginningOfOne) {
  for (const auto& [name, target] : targets()) {
    for (const fs::path& path : inputs_of(name)) {
      SCOPED_TRACE(name + "/" + path.filename().string());
      const Bytes bytes(path);
      const std::size_t step = bytes.size() / 24 + 1;
      for (std::size_t size = 0; size < bytes.size(); size += step) {
        replay(target, bytes.view(size));
      }
    }
  }
}

// By its source: a build without a store has no target for what that store reads.
TEST(CorpusReplayTest, EachCorpusHasATarget) {
  const fs::path corpora(HOLDFAST_FUZZ_CORPUS);
  for (const auto& entry : fs::directory_iterator(corpora)) {
    const std::string source = entry.path().filename().string() + ".cc";
    EXPECT_TRUE(fs::exists(corpora.parent_path() / source)) << entry.path();
  }
  EXPECT_EQ(targets().size(), HOLDFAST_FUZZ_TARGETS);
}

}  // namespace

Registration::Registration(const char* name, Target target) { targets().emplace(name, target); }

}  // namespace holdfast::fuzz
