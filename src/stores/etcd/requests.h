// The parts that etcd's requests are made of.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "src/stores/etcd/wire.pb.h"

namespace holdfast::stores::etcd {

inline void compare_created(wire::TxnRequest& txn, const std::string& key, std::uint64_t created) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(static_cast<std::int64_t>(created));
}

inline void compare_exists(wire::TxnRequest& txn, const std::string& key) {
  compare_created(txn, key, 0);
  txn.mutable_compare(txn.compare_size() - 1)->set_result(wire::Compare::GREATER);
}

inline void compare_modified(wire::TxnRequest& txn, const std::string& key, std::int64_t modified) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(modified);
}

inline void compare_value(wire::TxnRequest& txn, const std::string& key, std::string value) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::VALUE);
  compare.set_key(key);
  compare.set_value(std::move(value));
}

// Every write of a session: the contender may have been given a lease of its own.
inline void compare_lease(wire::TxnRequest& txn, const std::string& key, std::int64_t lease) {
  wire::Compare& compare = *txn.add_compare();
  compare.set_target(wire::Compare::LEASE);
  compare.set_key(key);
  compare.set_lease(lease);
}

// It was made at that revision, and still has the lease of then.
inline void compare_made(wire::TxnRequest& txn, const std::string& key, std::int64_t created,
                         std::int64_t lease) {
  compare_created(txn, key, static_cast<std::uint64_t>(created));
  compare_lease(txn, key, lease);
}

inline void put(wire::TxnRequest& txn, const std::string& key, const std::string& value,
                std::int64_t lease) {
  wire::PutRequest& request = *txn.add_success()->mutable_request_put();
  request.set_key(key);
  request.set_value(value);
  request.set_lease(lease);
}

inline wire::RangeRequest one_key(const std::string& key) {
  wire::RangeRequest request;
  request.set_key(key);
  return request;
}

}  // namespace holdfast::stores::etcd
