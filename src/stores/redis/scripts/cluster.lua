-- Only in a cluster. Its slots move between nodes key by key, so a lock's keys may lie on two nodes
-- for a while. Here nothing is done by halves: unless a script needs the record only, it first asks
-- whether the slot moves, and then answers TRYAGAIN without having written.
local TRYAGAIN = {err = 'TRYAGAIN the keys of this lock are moving to another node, or some are lost'}

-- The server refuses a command with several keys while their slot moves, unless it has them all.
-- The second of these keys never exists.
local function moves(key) return type(redis.pcall('EXISTS', key, key .. ':?')) == 'table' end
local function refuse_if_moving(key) if moves(key) then error(TRYAGAIN) end end
