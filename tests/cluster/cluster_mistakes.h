// The mistakes of cluster_journal_mutants.txt call these, because they need more than a line. The
// mutants' program alone includes this file.
#pragma once

#include <cstdint>
#include <string>

#include "src/server/record.h"
#include "src/stores/etcd/keys.h"
#include "src/stores/etcd/requests.h"

namespace holdfast::stores::etcd {

// A put over a key keeps its create_revision. This one keeps its lease, too.
inline wire::TxnRequest overwriting(const std::string& key, const std::string& text,
                                    std::int64_t lease) {
  wire::TxnRequest txn;
  put(txn, key, text, lease);
  return txn;
}

// The batch, as if all who asked had given up meanwhile.
inline wire::TxnRequest with_other_bytes(wire::TxnRequest txn) {
  for (wire::RequestOp& each : *txn.mutable_success()) {
    const std::string& key = each.request_put().key();
    const std::size_t folder = key.rfind("/b/");
    if (folder == std::string::npos) continue;
    const auto number = static_cast<std::uint64_t>(*parse_lease(key.substr(folder + 3)));
    server::RecordWriter batch({server::RecordKind::kBatch, number, 0});
    each.mutable_request_put()->set_value(batch.finish(machine::Instant{}));
  }
  return txn;
}

}  // namespace holdfast::stores::etcd
