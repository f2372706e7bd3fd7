// Replays the fuzzer's corpus in an ordinary test.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace holdfast::stores::redis {
namespace {

TEST(ReplyCorpusTest, NoInputOfTheCorpusBreaksTheReader) {
  int replayed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HOLDFAST_REPLY_CORPUS)) {
    SCOPED_TRACE(entry.path().filename().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                  std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    // And from a piece size of one byte, whatever the input says.
    std::string slowly(bytes.begin(), bytes.end());
    if (!slowly.empty()) slowly[0] = '\0';
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(slowly.data()), slowly.size());
    ++replayed;
  }
  EXPECT_GE(replayed, 10);
}

}  // namespace
}  // namespace holdfast::stores::redis
