-- Stores a value beside the lock, for a holder only; it stays after the release. Whoever listens for
-- it is told that it has changed.
--
-- KEYS[1] the lock's record. ARGV: 1 acquisition id, 2 value.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)

--@lock

open(KEYS[1])
expire()
local ticket = read(ARGV[1])
local answer = 'notheld'
if ticket and ticket.held then
  call('SET', K .. ':v', ARGV[2], 'PX', WEEK)
  redis.pcall('PUBLISH', K .. ':v', 'value ' .. K .. ':v')
  answer = 'done'
end
settle()
close()
return answer
