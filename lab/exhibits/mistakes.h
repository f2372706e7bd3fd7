// The classic mistakes as subjects: each is a lock that looks right, in as few lines as people
// write. Its exhibit (exhibits.cc) says what is wrong with it, and so does
// docs/guide/seven-ways-to-get-it-wrong.md, which quotes the code.
#pragma once

#include <chrono>
#include <vector>

#include "lab/subject/subject.h"

namespace holdfast::lab {

// One Redis server (redis_mistakes.cc, belief_mistakes.cc).
SubjectKind setnx_then_expire();  // Point "between SETNX and EXPIRE".
SubjectKind timestamp_getset(std::chrono::milliseconds clock_error);
SubjectKind del_without_check();
SubjectKind finally_delete();
SubjectKind true_on_failure();
SubjectKind get_then_del();  // Point "between GET and DEL".
SubjectKind thread_id();
SubjectKind no_second_look();  // Points "has to wait", "free again".
SubjectKind no_renewal();
SubjectKind lease_from_reply();
SubjectKind incr_token();
SubjectKind time_token();

// A primary and its replica (quorum_mistakes.cc). The URL names the server that the client takes
// for the primary.
SubjectKind plain_set_nx();
SubjectKind wait_elsewhere();

// Three independent servers, three URLs (quorum_mistakes.cc).
SubjectKind redlock();
SubjectKind redlock_tokens();
SubjectKind majority_semaphore();  // Point "two nodes have answered".

// SQLite (sqlite_mistakes.cc).
SubjectKind row_without_expiry();
SubjectKind client_clock_expiry(std::chrono::milliseconds clock_error);
SubjectKind delete_without_owner();

// A Redis URL first, then a file of SQLite (fallback_mistakes.cc).
SubjectKind redis_then_sqlite();
SubjectKind fallback_on_busy();

// PostgreSQL (postgres_mistakes.cc).
SubjectKind advisory_lock();

// memcached (memcached_mistakes.cc).
SubjectKind plain_add();

// ZooKeeper (zookeeper_mistakes.cc). Point "has queued".
SubjectKind stale_predecessor();
SubjectKind ignored_no();

// etcd's lock service (etcd_mistakes.cc).
SubjectKind unlock_by_name();
SubjectKind no_keepalive();

// The mistakes that a scenario can name: those with one store and no other setting.
std::vector<SubjectKind> mistakes();

}  // namespace holdfast::lab
