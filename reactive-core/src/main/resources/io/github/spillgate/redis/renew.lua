-- renew.lua: renews or releases permits of concurrency limits.
--
-- KEYS[i]   the key of the i-th count; no two are equal
-- ARGV[1]   the limits, see wire.lua, and then
--             mode:1        1 to renew, 0 to release
--             then, to the end, for each count
--               number:4, then for each of its holds
--                 limit:2   the position of its limit
--                 cost:7    the permits
--                 id:16     the id under which they were taken
--
-- Reply: the time, and for each hold a usage of its count, see wire.lua: "granted" is 1 if the permits were held.
-- DENIED means that they were released before, UNWRITTEN that too many are held; neither are held. A foreign
-- value does not prevent the other changes.

local limits, at = readLimits()
local mode
mode, at = unpackFrom('<I1', argument, at)
local i, reply = 0, {pack('<I7', micros)}
while at <= #argument do
  local number, holds, kind
  number, at = unpackFrom('<I4', argument, at)
  i = i + 1
  for n = 1, number do
    local l, cost, id
    l, cost, id, at = unpackFrom('<I2I7c16', argument, at)
    local limit = limits[l]
    kind = limit.kind
    if n == 1 then
      holds = kind.read(KEYS[i], limit)
    end
    if not holds then
      reply[#reply + 1] = usageOf(nil, 0, FOREIGN)
    else
      local wasHeld, status = false, 0
      holds.limit = limit
      if mode == 0 then
        kind.release(holds, id)
      else
        wasHeld, status = kind.renew(holds, cost, id)
      end
      reply[#reply + 1] = usageOf(holds, wasHeld and 1 or 0, status)
    end
  end
  if holds then
    kind.write(holds)
  end
end
return table.concat(reply)
