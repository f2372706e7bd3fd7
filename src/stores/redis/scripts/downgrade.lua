#!lua flags=allow-oom
-- Exclusive becomes shared in place, or an upgrade goes back to its shared ticket.
--
-- KEYS[1] the lock's record. ARGV: 1 acquisition id.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster
--@cluster refuse_if_moving(KEYS[1])

--@lock

open(KEYS[1])
expire()
local ticket = read(ARGV[1])
local answer
if not ticket or not ticket.held then
  answer = 'gone'
elseif ticket.kind == 'p' then
  answer = 'mismatch ' .. lock.family .. ' ' .. number(lock.capacity)
elseif ticket.kind == 'e' then
  if ticket.base ~= '-' then
    finish(ticket)
    answer = 'gone'
  else
    count(ticket, -1)
    ticket.kind = 's'
    count(ticket, 1)
    write(ticket)
  end
end
admit()
answer = answer or describe(ARGV[1])
close()
return answer
