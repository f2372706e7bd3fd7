#!lua flags=allow-oom
-- An operator ends the holder that has this token.
--
-- KEYS[1] the lock's record. ARGV: 1 token, 2 trace.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)
--@cluster
--@cluster refuse_if_moving(KEYS[1])

--@lock

open(KEYS[1])
expire()
local answer = 'notheld'
for _, id in ipairs(call('ZRANGE', H, 0, -1)) do
  local ticket = read(id)
  if ticket and ticket.token == ARGV[1] then
    finish(ticket)
    call('SET', K .. ':b', ARGV[2], 'PX', WEEK)
    hint(ticket)
    answer = 'released'
    break
  end
end
admit()
close()
return answer
