-- Only in a cluster. Its slots move between nodes key by key, so a lock's keys may lie on two nodes
-- for a while. Here nothing is done by halves: unless a script needs the record only, it first asks
-- whether the slot moves, and then answers TRYAGAIN without having written.
-- A batch declares no keys, because the server takes only those of one slot. The keys follow the
-- locks' words, and then come the tags of their slots. A key that is not here fails its lock only.
local undeclared = #KEYS == 0
local TRYAGAIN = {err = 'TRYAGAIN the keys of this lock are moving to another node, or some are lost'}

-- The server refuses a command with several keys while their slot moves, unless it has them all.
-- The second of these keys never exists.
local function moves(key) return type(redis.pcall('EXISTS', key, key .. ':?')) == 'table' end
local function refuse_if_moving(key) if moves(key) then error(TRYAGAIN) end end

-- What comes of the first read of a lock in a batch, if the server refuses it. Nothing is done then,
-- and the client sends this lock alone, so that the server may name the node to ask.
local function alone(refusal)
  return undeclared and {err = 'HOLDFAST-ALONE ' .. refusal.err} or refusal
end
