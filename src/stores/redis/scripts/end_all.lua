#!lua flags=allow-oom
-- Gives several locks back, as end.lua does each: one answer per lock, the failure of one is its
-- own.
--
-- KEYS the locks' records, at most 64. ARGV: 1 client, then per lock: id, issue.
local clock = redis.call('TIME')
local now = clock[1] .. string.sub('00000' .. clock[2], -6)

--@lock
--@ending

-- The short way: the only holder. Should its lease be over, nobody has taken the lock since.
local function end_held(key, record, id)
  if not record or sub(record, 1, 7) ~= '1 held ' or sub(record, 59, 90) ~= id then return nil end
  call('SET', key, '1 free ' .. sub(record, 8, 57), 'KEEPTTL')
  return 'released'
end

local function finish_one(key, client, id, issue)
  open(key)
  local answer = end_ticket(id, client, issue)
  settle()
  close()
  return answer
end

local answers = {}
for i, key in ipairs(KEYS) do
  local id, issue = ARGV[2 * i], ARGV[2 * i + 1]
  own_id, budget, grown = id, MOST_PER_STEP, {}
  local done, answer = pcall(function()
    return end_held(key, call('GET', key), id) or finish_one(key, ARGV[1], id, issue)
  end)
  if not done and type(answer) == 'table' then answer = answer.err end
  answers[i] = done and answer or 'error ' .. tostring(answer)
end
return answers
