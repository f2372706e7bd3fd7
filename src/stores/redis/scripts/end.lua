#!lua flags=allow-oom
-- Gives the lock back, or leaves its queue, and grants to the next in the same step.
--
-- KEYS[1] the lock's record. ARGV: 1 acquisition id, 2 client, 3 issue, 4 "release" or
-- "cancel".
local record = redis.call('GET', KEYS[1])

-- The short way: the only holder. Should its lease be over, nobody has taken the lock since.
if record and string.sub(record, 1, 7) == '1 held ' and string.sub(record, 59, 90) == ARGV[1] then
  redis.call('SET', KEYS[1], '1 free ' .. string.sub(record, 8, 57), 'KEEPTTL')
  return 'released'
end

local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)

--@lock

open(KEYS[1], record)
expire()
local ticket = read(ARGV[1])
local answer
if ticket then
  answer = ticket.held and 'released' or 'cancelled'
  if ticket.kind == 'x' then put_mark('x' .. ticket.id, '1') end
  finish(ticket)
else
  -- This request may have overtaken the one that asks for the lock.
  answer = 'gone'
  if ARGV[3] ~= ZERO and not is_old(ARGV[2], ARGV[3]) then mark(ARGV[2], ARGV[3]) end
  if ARGV[4] == 'cancel' then put_mark('x' .. ARGV[1], '1') end
end
settle()
close()
return answer
