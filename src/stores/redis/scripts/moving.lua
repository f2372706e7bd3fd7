-- Lets a ticket be renewed while its slot moves. Every key that the step needs must be here, and
-- none may become empty by it. Included by renew.lua in a cluster.
local function is_here(key) return redis.pcall('EXISTS', key) == 1 end

local function is_due(key)
  return #call('ZRANGEBYSCORE', key, '-inf', number(at), 'LIMIT', 0, 1) > 0
end

local function can_renew(key, id)
  local record = call('GET', key)
  if not record or sub(record, 1, 7) ~= '1 many ' then return false end
  open(key, record)
  if lock.tickets == lock.waiters or lock.tickets == 1 and lock.exclusive == 1 then return false end
  if not is_here(T) or not is_here(H) or is_due(H) then return false end
  if lock.waiters > 0 and (not is_here(Q) or not is_here(W) or is_due(W)) then return false end
  local ticket = read(id)
  return ticket and ticket.kind ~= 'x' and not next_admissible()
end

local function check_moving(key, id)
  moving = moves(key)
  if moving and not can_renew(key, id) then error(TRYAGAIN) end
end
