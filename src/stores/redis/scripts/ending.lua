-- Ends a ticket at its client's request. Included after lock.lua by the scripts that release.
local function end_ticket(id, client, issue)
  expire()
  local ticket = read(id)
  if not ticket then
    -- This request may have overtaken the one that asks for the lock.
    if issue ~= ZERO and not is_old(client, issue) then mark(client, issue) end
    return 'gone'
  end
  if ticket.kind == 'x' then put_mark('x' .. ticket.id, '1') end
  finish(ticket)
  return ticket.held and 'released' or 'cancelled'
end

