// The keys at the server.
//
//   <prefix>hf1/l/<name>/c          the lock's record
//   <prefix>hf1/l/<name>/c/<key>    its contenders, each on its client's lease
//   <prefix>hf1/l/<name>/v          the value beside it
//   <prefix>hf1/s/<lease>           a client's session
//   <prefix>hf1/k/<lease>           written by others to notify its client
//   <prefix>hf1/r/<key>             a record of ids (records.h)
//
// In a name '%' and '/' are written %25 and %2F, so no folder is a prefix of another one's keys.
// With recipe=etcd the contenders are <prefix><name>/<key>, like those of etcd's own locks; only
// the sessions and the keys of notifications are kept beside them. A lock whose folder would
// contain these is refused.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"

namespace holdfast::stores::etcd {

class Keys {
 public:
  Keys(const std::string& prefix, bool foreign_recipe);

  // With the recipe: kInvalidArgument if the lock's folder would contain our own keys.
  Result<void> check_name(std::string_view lock) const;
  std::string folder(std::string_view lock) const;      // The prefix of its keys.
  std::string contenders(std::string_view lock) const;  // The prefix of its contenders.
  std::string record(std::string_view lock) const;
  std::string value(std::string_view lock) const;
  std::string session(std::int64_t lease) const;
  std::string notify(std::string_view tag) const;
  std::string kept(std::string_view record) const;

  // The prefix of the folders of all locks whose names begin so.
  std::string folders(std::string_view name_prefix) const;
  // The lock whose folder contains that key, and the end of that folder; nullopt if there is none.
  struct Folder {
    std::string lock;
    std::string end;
  };
  std::optional<Folder> folder_of(std::string_view key) const;

 private:
  std::string root_;
  bool foreign_;
};

// The first key after all keys with this prefix.
std::string behind(std::string prefix);

// 16 hex digits.
std::string lease_text(std::int64_t lease);
std::optional<std::int64_t> parse_lease(std::string_view text);

}  // namespace holdfast::stores::etcd
