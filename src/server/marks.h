// Marks keep a late request from being taken for a new one: for each client and lock, the highest
// number of an acquisition (Request::issue) that was seen.
//
// Guarantee: an acquisition that was seen is old for ever after, while its client is remembered.
// Bounded: a client keeps `locks_per_client` marks. Beyond that the mark with the lowest number
// goes, and all of the client's numbers up to it are old for every lock. Beyond `clients` the one
// goes that was seen least recently.
// Not guaranteed: that a client's late request is refused when it comes after those of `clients`
// others. Each client counts from 1, so no number of a client that is not known shows whether it
// is new. Such a grant is nobody's, and ends with its lease: it excludes others, and admits none.
// Deterministic: the same calls leave the same marks, so a reader of the journal knows them too.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace holdfast::server {

class Marks {
 public:
  explicit Marks(std::size_t locks_per_client = 1'024, std::size_t clients = 16'384)
      : locks_per_client_(locks_per_client), clients_(clients) {}

  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  Marks(Marks&&) = default;
  Marks& operator=(Marks&&) = default;

  // Whether the number was seen from the client for the lock, or could have been.
  bool is_old(const std::string& client, const std::string& lock, std::uint64_t issue) const;
  // False: nothing changed, it was old already.
  bool raise(const std::string& client, const std::string& lock, std::uint64_t issue);
  // Every number of the client up to this one is old.
  void raise_floor(const std::string& client, std::uint64_t issue);

  // In the order in which the clients were seen, and then of the numbers: what raises the same
  // marks in another object.
  using EachFloor = std::function<void(const std::string& client, std::uint64_t issue)>;
  using EachMark =
      std::function<void(const std::string& client, const std::string& lock, std::uint64_t issue)>;
  void visit(const EachFloor& each_floor, const EachMark& each_mark) const;

 private:
  using Ages = std::list<std::string>;

  // The lock's name is the key in by_lock.
  using Mark = std::pair<std::uint64_t, const std::string*>;
  struct Lower {
    bool operator()(const Mark& a, const Mark& b) const {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    }
  };
  struct Client {
    std::uint64_t floor = 0;
    Ages::iterator age;
    std::unordered_map<std::string, std::uint64_t> by_lock;
    std::set<Mark, Lower> by_issue;
  };
  using Known = std::unordered_map<std::string, Client>;

  const Client* find(const std::string& client) const;
  Client& see(const std::string& client);

  std::size_t locks_per_client_;
  std::size_t clients_;
  Known known_;
  // The client that find() was asked for last: a request asks for it several times.
  mutable Known::const_pointer last_ = nullptr;
  Ages by_age_;  // The clients, the one that was seen least recently first.
};

}  // namespace holdfast::server
