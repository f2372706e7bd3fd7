// The server's replies, as they come in pieces; and the requests that are answered by them.
//
// Only what Holdfast sends is understood: mg, ms and md (the meta commands of the text protocol,
// whose writes answer with the item's new cas number), version and stats.
//
// Guarantee: every length is compared with a bound before memory is taken for it.
// Thread-safety: none. Errors: bad() for bytes that no memcached sends; it stays so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::stores::memcached {

// The longest document that is written, or read back. A larger item would be refused by a server
// with its default limit of 1 MiB, which drops the item that was there.
inline constexpr std::size_t kLargestDocument = 512 * 1024;

struct Reply {
  enum class Kind : std::uint8_t {
    kDone,      // HD: done. `number` is the item's cas number, where it was asked for.
    kValue,     // VA: `text` is the item's value.
    kMissing,   // EN, NF: there is no item.
    kConflict,  // NS, EX: another item is there than was expected.
    kText,      // VERSION and STAT: `text` has the lines, without VERSION.
    kRefused,   // ERROR, CLIENT_ERROR, SERVER_ERROR: `text` is the line.
  };
  Kind kind{};
  std::uint64_t number = 0;
  std::string text{};
};

class ReplyReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole reply; nullopt: there is none yet, or never will be (bad()).
  std::optional<Reply> next();
  bool bad() const { return bad_; }

 private:
  std::optional<std::string_view> line();
  std::optional<Reply> fail() { return bad_ = true, std::nullopt; }
  std::optional<Reply> read_value(std::string_view line);
  std::optional<Reply> read_stats();
  void consume(std::size_t count);

  std::string buffer_;
  std::size_t at_ = 0;
  bool bad_ = false;
};

// --- Requests.

// "holdfast/1/" and 128 bits of the name. Two names may share a key: the document says which it is.
std::string key_of(std::string_view name);

// `value`: with the document, not only its number.
std::string get_request(std::string_view key, bool value);
// `number`: the item's that is replaced; 0: there must be none. `seconds`: 0: it never expires.
std::string set_request(std::string_view key, std::string_view document, std::uint64_t number,
                        std::uint64_t seconds);
std::string delete_request(std::string_view key, std::uint64_t number);

}  // namespace holdfast::stores::memcached
