#!lua flags=allow-oom
-- Changes what acquisitions already have at one node of a Redlock cluster: it never creates a hold.
-- The keys are those of take.lua, which describes them, and the record is node.lua's.
--
-- KEYS: locks. ARGV: 1 "cluster replication-id", as the client knows them; then three words for
-- each lock, '-' where there is none:
--   confirm   id, "token tag attempt": the write-back; the token has 16 digits
--   renew     id, "seq ttl token", where the token is that of a break; renewany: also what was not
--             confirmed
--   keep      id, "seq ttl"; keepany
--   release   id, "- tag attempt", or "- -": whatever has the id; "z ...": the attempt may still
--             arrive
--   undo      the same for an attempt that came to nothing: whoever waits is not told
--   break     -, "token trace"
--   inspect   -, -; answers now, and fields with values: for a hold its id and "end token owner",
--             for a break b and "token trace"
-- Several locks have an array of answers.
local call, match, sub, byte, find = redis.call, string.match, string.sub, string.byte, string.find
local format = string.format
local clock = redis.call('TIME')
local now = clock[1] .. sub('00000' .. clock[2], -6)
local node = redis.pcall('GET', 'hfr1@node')
local known = type(node) == 'string' and sub(node, 1, 81) == ARGV[1]
if not known then node = '' end
local ready = byte(node, 83) == 114
local floor, longest = sub(node, 85, 100), sub(node, 102, 117)
local raised = false

-- All that is rare, so that a short call makes few functions.
local function rarely(op, key, id, args, first, rest, lives)
  local expiry = match(node, '^%d+', 136)

  -- Without the lines that begin like this.
  local function without(start)
    local kept = ''
    for line in string.gmatch(rest, '\n[^\n]+') do
      if sub(line, 2, 1 + #start) ~= start then kept = kept .. line end
    end
    return kept
  end

  local function mark()
    call('SET', key, format('%s%s\nz%s %s %.0f', first, without('z' .. id .. ' '), id,
      match(args, '%d+$'), now + longest), 'PX', expiry)
  end

  local function renew()
    local keeps = sub(op, 1, 4) == 'keep'
    local next_seq, ttl, token = match(args, '^(%d+) (%d+) ?(%d*)$')
    local broken, trace = match(rest, '\n!(%d+) ([^\n]*)')
    if not keeps and not lives and broken == token then return 'broken ' .. trace end
    local none = sub(first, 51, 66) == '0000000000000000'
    if not lives or none and sub(op, -3) ~= 'any' then return 'gone' end
    if ttl - longest > 0 then return 'toolong' end
    local named, seq, owner = match(first, '^(%x+ %d+) (%d+) (.*)$', 85)
    if not named then return 'corrupt' end
    local ends, lease = sub(first, 1, 16), sub(first, 68, 83)
    local ahead = next_seq - seq
    if keeps and ahead < 0 then return 'gone' end
    if ahead > 0 and (keeps or now + ttl > ends + 0) then
      seq, lease = next_seq, format('%016.0f', ttl)
      call('SET', key, format('%.0f', now + ttl) .. sub(first, 17, 67) .. lease .. ' ' .. named ..
        ' ' .. seq .. ' ' .. owner .. rest, 'PX', expiry)
    end
    return 'held ' .. format('%.0f', sub(first, 51, 66)) .. ' ' .. seq .. ' ' ..
      format('%.0f', lease)
  end

  -- `first` is whatever holds.
  local function break_hold()
    local token, trace = match(args, '^(%d+) (.*)$')
    local ends, who, has = match(first, '^(%d+) (%x+)[ w]0*(%d+) ')
    if has ~= token or ends <= now then return 'notheld' end
    redis.pcall('PUBLISH', key, key)
    call('SET', key, without('!') .. '\n!' .. token .. ' ' .. trace, 'PX', expiry)
    return 'broken ' .. who
  end

  local function inspect()
    local seen = {now}
    local ends, who, token, owner = match(first, '^(%d+) (%x+)[ w](%d+) %d+ %x+ %d+ %d+ (.*)$')
    if who then seen[2], seen[3] = who, ends .. ' ' .. token .. ' ' .. owner end
    local broken = match(rest, '\n!([^\n]*)')
    if broken then seen[#seen + 1], seen[#seen + 2] = 'b', broken end
    return seen
  end

  if op == 'release' or op == 'undo' then return mark() end
  if op == 'inspect' then return inspect() end
  if op == 'break' then return break_hold() end
  return ready and renew() or 'lost'
end

-- The hold of this attempt ends, or of an earlier one of its client; other lines may stay.
local function release(op, key, id, args, first, rest, has, lives)
  local named = sub(args, 3)
  local mine = has and (named == '-' or find(first, named .. ' ', 85, true) == 85)
  if has and not mine then
    local tag, attempt = match(named, '^(%x+) (%d+)$')
    local t, of = match(first, '^(%x+) (%d+)', 85)
    mine = t == tag and tonumber(of) <= tonumber(attempt)
  end
  if mine then
    local wanted = byte(first, 50) == 119
    if wanted and op == 'undo' then rest = rest .. '\nw' end
    if rest == '' then call('DEL', key) else call('SET', key, rest, 'KEEPTTL') end
    if wanted and op == 'release' then redis.pcall('PUBLISH', key, key) end
  elseif byte(args) == 122 then
    rarely(op, key, id, args, first, rest)
  end
  return mine and lives and 'released' or 'gone'
end

local answers = {}
for i = 1, #KEYS do
  local key, at = KEYS[i], 3 * i - 1
  local op, id, args = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local first, rest = known and redis.pcall('GET', key) or '', ''
  local readable = type(first) == 'string'
  local cut = readable and find(first, '\n', 1, true)
  if cut then first, rest = sub(first, 1, cut - 1), sub(first, cut) end
  local has = readable and find(first, id, 18, true) == 18
  local lives = has and sub(first, 1, 16) > now
  local answer
  if not known then
    answer = 'lost'
  elseif not readable then
    answer = 'corrupt'
  elseif op == 'confirm' then
    answer = 'notheld'
    if not ready then
      answer = 'lost'
    elseif lives and find(first, sub(args, 18) .. ' ', 85, true) == 85 then
      answer = 'confirmed'
      local token = sub(args, 1, 16)
      call('SETRANGE', key, '50', token)
      if token > floor then
        floor, raised = token, true
      end
    end
  elseif op == 'release' or op == 'undo' then
    answer = release(op, key, id, args, first, rest, has, lives)
  else
    answer = rarely(op, key, id, args, first, rest, lives)
  end
  answers[i] = answer
end
if raised then call('SETRANGE', 'hfr1@node', '84', floor) end
return answers[2] and answers or answers[1]
