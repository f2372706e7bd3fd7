// Where the records of a case are: records_test.cc has the cases, and each NAME_place.cc one kind
// of store.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace holdfast::testing {

// A place of its own: nobody else's records are in it.
class Place {
 public:
  virtual ~Place() = default;
  // `query`: like "ns=a".
  virtual std::string url(const std::string& query = {}) const = 0;
  // A part of what forgets() says; empty: nothing is forgotten.
  virtual std::string forgets() const { return {}; }

  virtual bool has_clock() const { return false; }  // Its server's, not this host's.
  virtual bool has_server() const { return false; }
  virtual void kill_and_start() {}
  virtual void pause() {}
  virtual void resume() {}
};

std::vector<std::string> stores_under_test();
std::unique_ptr<Place> make_place(const std::string& store);
// Empty: there is one.
std::string no_place_because();

// "a=b" and what the URL has already, joined.
inline std::string with_query(const std::string& url, const std::string& query) {
  if (query.empty()) return url;
  return url + (url.find('?') == std::string::npos ? '?' : '&') + query;
}

}  // namespace holdfast::testing
