// Where things are kept at the server.
//
//   <prefix>hf1/l/<name>/c          the lock's record
//   <prefix>hf1/l/<name>/c/<key>    its contenders, each on its client's lease
//   <prefix>hf1/l/<name>/v          the value beside it
//   <prefix>hf1/s/<lease>           a client's session
//   <prefix>hf1/k/<lease>           written by others to notify its client
//
// In a name '%' and '/' are %25 and %2F: a folder begins no other's keys. With recipe=etcd the
// contenders are <prefix><name>/<key>, as etcd's own locks have them; beside them there are only
// the sessions and the keys of notifications. A lock in whose folder these would be is refused.
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

  // With the recipe: kInvalidArgument where its folder is among keys of ours.
  Result<void> check_name(std::string_view lock) const;
  std::string folder(std::string_view lock) const;      // The common beginning of its keys.
  std::string contenders(std::string_view lock) const;  // The common beginning of its contenders.
  std::string record(std::string_view lock) const;
  std::string value(std::string_view lock) const;
  std::string session(std::int64_t lease) const;
  std::string notify(std::string_view tag) const;

  // The common beginning of the folders of all locks whose names begin so.
  std::string folders(std::string_view name_prefix) const;
  // The lock in whose folder that key is, and the end of that folder; nullopt: in none.
  struct Folder {
    std::string lock;
    std::string end;
  };
  std::optional<Folder> folder_of(std::string_view key) const;

 private:
  std::string root_;
  bool foreign_;
};

// The first key behind all that begin with it.
std::string behind(std::string prefix);

// 16 hex digits.
std::string lease_text(std::int64_t lease);
std::optional<std::int64_t> parse_lease(std::string_view text);

}  // namespace holdfast::stores::etcd
