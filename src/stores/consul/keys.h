// The keys in Consul's key-value store.
//
//   PREFIX/l/NAME/c/KEY       a contender of a lock, held by its client's session
//   PREFIX/l/NAME/c/KEY/out   what that one has left to the next (handoff.h)
//   PREFIX/l/NAME/record      what the engine keeps beside the contenders
//   PREFIX/v/NAME             the value beside a lock
//   PREFIX/k/KEY              a record of ids (records.h)
//   PREFIX/s/SESSION/fence    ends with the session; its index is the number of a client's writes'
//   PREFIX/s/SESSION/knock    era (backend.h); others notify by it
//
// With recipe=consul a lock is a key of `consul lock`. NAME is then that key's whole path, even if
// the URL has a part of it. All keys except those of sessions are below PREFIX/r.
//
// NAME is the lock's name, percent-encoded. This includes '/' and the dots of "." and "..", which
// no URL can have as a segment. So names map to keys one to one, and no name lies in another one's
// folder.
// Thread-safety: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/contend/record.h"

namespace holdfast::stores::consul {

class Keys {
 public:
  explicit Keys(const std::string& prefix) : prefix_(prefix + "/"), locks_(prefix_) {}
  // With recipe=consul: `shared_path` comes before the names in the paths of `consul lock`.
  Keys(const std::string& prefix, std::string shared_path)
      : prefix_(prefix + "/"), locks_(prefix_ + "r/"), shared_(std::move(shared_path)) {}

  std::string folder(std::string_view lock) const;
  std::string contenders(std::string_view lock) const { return folder(lock) + "c/"; }
  std::string contender(std::string_view lock, const contend::Key& key) const {
    return contenders(lock) + contend::to_text(key);
  }
  std::string record(std::string_view lock) const { return folder(lock) + "record"; }
  std::string value(std::string_view lock) const;
  std::string kept(std::string_view record) const;
  std::string fence(std::string_view session) const {
    return prefix_ + session_part(session) + "fence";
  }
  std::string notify(std::string_view session) const {
    return prefix_ + session_part(session) + "knock";
  }
  // The prefix of the keys of all locks with that prefix; other keys may have it, too.
  std::string locks(std::string_view prefix) const;

  // The lock's name in a folder's key; nullopt if there is none.
  std::optional<std::string> lock_of(std::string_view folder) const;

 private:
  std::string path_of(std::string_view lock) const;
  static std::string session_part(std::string_view session) {
    return "s/" + std::string(session) + "/";
  }
  std::string prefix_;
  std::string locks_;
  std::string shared_;
};

}  // namespace holdfast::stores::consul
