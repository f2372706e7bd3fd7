#include "examples/stock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace demo {
namespace {

// Fixed width, so that a write replaces the whole content at once, also when nobody is excluded.
constexpr std::size_t kLength = 6 + 1 + 31 + 1;
// A real deduction works between reading and writing: it asks a price, or prints a label.
constexpr auto kThinking = std::chrono::microseconds(200);

}  // namespace

void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

void Stock::fill(int items) const { write({.items = items, .newest = {}}); }

Stock::Content Stock::read() const {
  std::array<char, kLength + 1> text{};
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool complete = file >= 0 && ::pread(file, text.data(), kLength, 0) == kLength;
  if (file >= 0) ::close(file);
  if (!complete) give_up("cannot read " + path_);
  const std::string line(text.data(), kLength);
  const auto token = holdfast::Token::parse(line.substr(7, 31));
  if (!token) give_up(path_ + " is no stock file: " + line);
  return {.items = std::atoi(line.c_str()), .newest = *token};
}

void Stock::write(const Content& content) const {
  std::array<char, kLength + 1> text{};
  std::snprintf(text.data(), text.size(), "%06d %s\n", content.items,
                content.newest.to_string().c_str());
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const bool complete = file >= 0 && ::pwrite(file, text.data(), kLength, 0) == kLength;
  if (file >= 0) ::close(file);
  if (!complete) give_up("cannot write " + path_);
}

std::optional<int> Stock::take_one(const std::optional<holdfast::Token>& token) const {
  Content content = read();
  if (token && *token < content.newest) return std::nullopt;
  std::this_thread::sleep_for(kThinking);
  content.items -= 1;
  if (token) content.newest = *token;
  write(content);
  return content.items;
}

}  // namespace demo
