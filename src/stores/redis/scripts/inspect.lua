-- Shows a lock; changes nothing.
--
-- KEYS[1] the lock's record. Answers: now, record, tickets, holders and waiters with the ends of
-- their leases, the trace of the last break.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
local key = KEYS[1]
--@cluster
local stored = redis.call('GET', key)
-- An empty record is not ours, and differs from a missing one.
local record = stored == '' and '?' or stored or ''
local many = string.sub(record, 1, 7) == '1 many '
--@cluster local trace = redis.pcall('GET', key .. ':b')
--@cluster if type(trace) ~= 'string' then trace = '' end
--@cluster local tickets = string.match(record, '^1 many %d+ %a %a %d+ %d+ %d+ %d+ %d+ (%d+) ')
--@cluster if many and moves(key) then return TRYAGAIN end
--@cluster if tickets and redis.call('HLEN', key .. ':t') ~= tonumber(tickets) then return TRYAGAIN end
return {
  now,
  record,
  many and redis.call('HGETALL', key .. ':t') or {},
  many and redis.call('ZRANGE', key .. ':h', 0, -1, 'WITHSCORES') or {},
  many and redis.call('ZRANGE', key .. ':w', 0, -1, 'WITHSCORES') or {},
  --@single redis.call('GET', key .. ':b') or '',
  --@cluster trace,
}
