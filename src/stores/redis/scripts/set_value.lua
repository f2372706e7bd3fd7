#!lua flags=allow-oom
-- Stores a value beside the lock, for a holder only; the value stays after the release. Subscribers
-- of the value are told that it has changed. A holder that gives up its lease can set, in the same
-- step, when the lease ends. A value lives for a week after its last use. A name with a '..' in it is
-- no user's: a fail-over chain keeps its record and stamp there, and they must not be forgotten.
--
-- KEYS[1] the lock's record. ARGV: 1 acquisition id, 2 value, 3 whether it is to be stored (v or -),
-- 4 seq, 5 until the lease ends; 0: as it is.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster
--@cluster refuse_if_moving(KEYS[1])

--@lock

open(KEYS[1])
expire()
local ticket = read(ARGV[1])
local answer = 'notheld'
local seq, length = ARGV[4], tonumber(ARGV[5])
local keeps = length > 0
local is_late = ticket and keeps and is_later(ticket.seq, seq)
if ticket and ticket.held and not is_late then
  local is_again = keeps and seq == ticket.seq  -- Done before, value and all.
  if keeps and not is_again then
    ticket.seq, ticket.lease = seq, length
    call('ZADD', H, number(at + length), ticket.id)
    write(ticket)
  end
  if ARGV[3] == 'v' and not is_again then
    if string.find(K, '[{/]%.%./') then
      call('SET', K .. ':v', ARGV[2])
    else
      call('SET', K .. ':v', ARGV[2], 'PX', WEEK)
    end
    redis.pcall('PUBLISH', K .. ':v', 'value ' .. K .. ':v')
  end
  answer = 'done'
end
admit()
close()
return answer
