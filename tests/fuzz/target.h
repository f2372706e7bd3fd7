// A fuzz target: a function that takes whatever bytes come, and throws Broken when what it feeds
// does not hold to what it promises.
//
// The file NAME.cc has `void run(std::string_view input)` in the namespace holdfast::fuzz::NAME,
// and ends with HOLDFAST_FUZZ_TARGET(NAME). Alone, with libFuzzer, it is the program fuzz_NAME;
// together, without, all of them are corpus_replay_test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace holdfast::fuzz {

struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

inline void demand(bool holds, const std::string& what) {
  if (!holds) throw Broken(what);
}

using Target = void (*)(std::string_view input);

struct Registration {
  Registration(const char* name, Target target);
};

// Takes an input apart, front to back. Behind its end there are zeros and empty texts.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }

  // Most numbers are one byte; those that break things are at hand.
  template <typename T = std::int64_t>
  T number() {
    const std::uint8_t first = byte();
    switch (first) {
      case 0xff: return static_cast<T>(-1);
      case 0xfe: return static_cast<T>(INT64_MAX);
      case 0xfd: return static_cast<T>(INT64_MIN);
      case 0xfc: return static_cast<T>(UINT32_MAX);
      case 0xfb: return static_cast<T>(std::int64_t{1} << 32);
      case 0xfa: return static_cast<T>(whole());
      default: return static_cast<T>(first);
    }
  }

  std::string_view text(std::size_t size) {
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(text.size());
    return text;
  }

  // Up to the next line's end, or the end.
  std::string_view line() {
    const std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(line.size() < rest_.size() ? line.size() + 1 : line.size());
    return line;
  }

 private:
  std::uint64_t whole() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8U | byte();
    return value;
  }

  std::string_view rest_;
};

}  // namespace holdfast::fuzz

#ifdef HOLDFAST_FUZZER
#define HOLDFAST_FUZZ_TARGET(name)                                                    \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);  \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    ::holdfast::fuzz::name::run({reinterpret_cast<const char*>(data), size});         \
    return 0;                                                                         \
  }
#else
#define HOLDFAST_FUZZ_TARGET(name)                                    \
  static const ::holdfast::fuzz::Registration registration_of_##name( \
      #name, &::holdfast::fuzz::name::run);
#endif
