-- settle.lua: replaces the costs of earlier decisions by the real ones. Each settlement takes effect once.
--
-- KEYS[3i-2]   the key of the count of the i-th settlement; several may be on one count
-- KEYS[3i-1]   the key of its reset mark
-- KEYS[3i]     the key of its own mark, which exists for a minute after it has taken effect
-- ARGV[1]      the limits, see wire.lua, and then, to the end, for each settlement
--                limit:2      the position of its limit
--                deadline:7   the latest time of the settlement, in microseconds on this clock; 0 if there is none
--                at:7         the time at which the decision was charged, in milliseconds
--                stamp:7      the time of the decision in microseconds: a later reset has removed its permits already,
--                             and the settlement has no effect; 0 without one
--                life:2       the life of the count in the decision: in another one, nothing is refunded
--                back:7       the number of permits to refund, of which at most those that are there are refunded
--                more:7       the number of permits to charge now, even above the limit
--                most:7       the highest number of used permits to which the charge may raise the count
--
-- Reply: the time, and the usage of each count, see wire.lua. 'granted' is 1 if the settlement has taken effect now.
-- The status is FOREIGN or LATE if it cannot take effect. Neither prevents the others.
--
-- The mark is set before the count is changed. It has to live longer than the client retries, which ends at the
-- deadline.

local MARK_LIFE = '60000'

-- Returns whether the count was reset after the charge. A foreign value is not a reset.
local function isReset(mark, stamp)
  local reset = mark and redis.pcall('GETRANGE', mark, '0', '-1')
  return type(reset) == 'string' and stamp <= (tonumber(reset) or -1)
end

local limits, at = readLimits()
local counts, settled = {}, {}
while at <= #argument do
  local l, deadline, takenAt, stamp, life, back, more, most
  l, deadline, takenAt, stamp, life, back, more, most, at = unpackFrom('<I2I7I7I7I2I7I7I7', argument, at)
  local i = #settled + 1
  local key, resetMark, mark = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local one = {status = isLate(deadline) and LATE or 0, granted = 0}
  settled[i] = one
  if one.status == 0 then
    counts[key] = counts[key] or limits[l].kind.read(key, limits[l], true)
    one.count = counts[key]
    one.status = not one.count and FOREIGN or one.count.isOutside and LATE or 0
  end
  if one.count and one.status == 0
    and not isReset(resetMark, stamp) and call('SET', mark, '', 'NX', 'PX', MARK_LIFE) then
    one.granted = 1
    local kind = limits[l].kind
    local isChanged = more > 0 and kind.takeBeyond(one.count, more, most)
      or back > 0 and one.count.life == life and kind.refund(one.count, back, takenAt)
    if isChanged then
      change(one.count)
    end
  end
end
for _, count in pairs(counts) do
  if count.mustWrite then
    count.limit.kind.write(count)
  end
end
local reply = {pack('<I7', micros)}
for i, one in ipairs(settled) do
  reply[i + 1] = usageOf(one.count, one.granted, one.status)
end
return table.concat(reply)
