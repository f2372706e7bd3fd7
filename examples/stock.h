// A stock of items in a file: a resource that a lock protects, and that checks fencing tokens.
//
// Guarantee: a deduction with a token is refused when a later token has been seen.
// Not guaranteed: anything between reading and writing. That is what the lock is for.
//
// Thread-safety: none between reading and writing, on purpose.
#pragma once

#include <optional>
#include <string>

#include "holdfast/token.h"

namespace demo {

class Stock {
 public:
  // The file holds the items left and the highest token that took some.
  struct Content {
    int items = 0;
    holdfast::Token newest;
  };

  explicit Stock(std::string path) : path_(std::move(path)) {}

  void fill(int items) const;
  Content read() const;
  void write(const Content& content) const;

  // Takes one item off by reading, thinking and writing. nullopt as token: nobody asks.
  // Returns the items left; nullopt: refused, the token is older than one that was seen.
  std::optional<int> take_one(const std::optional<holdfast::Token>& token) const;

 private:
  std::string path_;
};

// Ends the program with a message: for what a demonstration cannot go on without.
[[noreturn]] void give_up(const std::string& what);

}  // namespace demo
