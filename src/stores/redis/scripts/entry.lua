-- Gives an acquisition its ticket. Included after lock.lua by the scripts that acquire.
local id, client, issue, ttl, owner  -- The request under consideration.
local kind, permits, capacity, may_wait, waiter_ttl, most, base, family

local function ask(...)
  local terms
  id, client, issue, ttl, owner, terms = ...
  kind, permits, capacity, may_wait, waiter_ttl, most, base =
    match(terms, '^%a(%a) (%d+) (%d+) (%d) (%d+) (%d+) (%S+)$')
  ttl, permits, capacity, waiter_ttl, most =
    tonumber(ttl), tonumber(permits), tonumber(capacity), tonumber(waiter_ttl), tonumber(most)
  family = kind == 'p' and 'p' or 'e'
end

-- Why it can never get a ticket; nil if it can.
local function refusal()
  if lock.tickets > 0 and (lock.family ~= family or lock.capacity ~= capacity) then
    return 'mismatch ' .. lock.family .. ' ' .. number(lock.capacity)
  end
  if permits > capacity then return 'toolarge' end
  if base == '-' then return nil end
  local shared = read(base)
  if not shared or not shared.held then return 'ended' end
  if shared.kind ~= 's' then return 'invalid' end
  if lock.upgrade ~= '-' then return 'deadlock' end  -- Each would wait for the other's share.
  return nil
end

local function admits_newcomer()
  if lock.tickets == 0 then return true end
  if base ~= '-' then return admits_upgrade() end
  return lock.waiters == 0 and admits(kind, permits)
end

local function enter(granted)
  if lock.tickets == 0 then
    lock.family, lock.capacity = family, capacity
  end
  mark(client, issue)
  local ticket = {
    id = id, held = false, kind = kind, permits = permits, order = lock.next, seq = '0',
    lease = granted and ttl or waiter_ttl, token = ZERO, client = client, base = base,
    owner = owner,
  }
  lock.next = lock.next + 1
  add(ticket, at + ticket.lease)
  if base ~= '-' then lock.upgrade, lock.base = id, base end
  if granted then grant(ticket) else write(ticket) end
end
