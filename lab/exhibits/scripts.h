// The steps of each exhibit.
#pragma once

#include <optional>
#include <string>

#include "lab/exhibits/exhibits.h"

namespace holdfast::lab {

// For leases whose end is not part of the story.
inline constexpr milliseconds kLong{5'000};
// The duration of work under the lock, long enough to be visible in a timeline.
inline constexpr milliseconds kWork{60};

namespace scripts {

void setnx_then_expire(Play& play);
void timestamp_getset(Play& play);
void del_without_check(Play& play);
void get_then_del(Play& play);
void finally_delete(Play& play);
void true_on_failure(Play& play);
void no_renewal(Play& play);
void thread_id(Play& play);
void lease_from_reply(Play& play);
void no_second_look(Play& play);
void wait_elsewhere(Play& play);
void async_failover(Play& play);
void promoted_clock_behind(Play& play);
void redlock_empty_node(Play& play);
void redlock_tokens(Play& play);
void majority_semaphore(Play& play);
void incr_token(Play& play);
void failover_without_authority(Play& play);
void fallback_on_busy(Play& play);
Tally fallback_on_exception(Play& play);
void row_without_expiry(Play& play);
void client_clock_expiry(Play& play);
void delete_without_owner(Play& play);
Tally optimistic_version(Play& play);
Tally optimistic_retry_storm(Play& play);
GivenIds worker_from_address(Play& play);
GivenIds worker_from_rand(Play& play);
GivenIds restart_after_set_back(Play& play);
GivenIds worker_out_of_range(Play& play);

// Exhibits on servers of their own, and the reason if these are missing here.
void advisory_behind_pooler(Play& play);
std::optional<std::string> no_pooler();
Tally for_update_then_insert(Play& play);
std::optional<std::string> no_mariadb();
void memcached_evicts(Play& play);
std::optional<std::string> no_memcached();
void stale_predecessor(Play& play);
void ignored_no(Play& play);
Tally zookeeper_herd(Play& play);
std::optional<std::string> no_zookeeper();
void unlock_by_name(Play& play);
void no_keepalive(Play& play);
std::optional<std::string> no_etcd();

}  // namespace scripts
}  // namespace holdfast::lab
