-- refund.lua: refunds permits of one or more counts.
--
-- KEYS      the keys of the counts; no two are equal
-- ARGV[1]   the limits, see wire.lua, then
--             mode:1      0 to refund the oldest permits of a life, 1 to refund those of one decision, 2 to refund the
--                         oldest permits of any life
--             then, to the end, for each count
--               limit:2   the position of its limit
--               at:7      the time at which its decision was charged, in milliseconds; 0 without one
--               cost:7    the number of permits, of which at most those that are there are refunded
--               life:2    the life of the count with the permits: in another one, or after another reset, they are
--                         gone, and the refund must not remove others
--               end:7     the time from which on nothing is refunded, in milliseconds, because the permits may have
--                         left the window, and the refund must not remove others; 0 for none
--
-- Reply: empty.
--
-- Error 'FOREIGN i': the value under KEYS[i] is foreign. Nothing has been changed, because all counts are read before
-- the first is written.

local limits, at = readLimits()
local mode
mode, at = unpackFrom('<I1', argument, at)

local counts, times, costs, ends = {}, {}, {}, {}
while at <= #argument do
  local l, takenAt, cost, life, last
  l, takenAt, cost, life, last, at = unpackFrom('<I2I7I7I2I7', argument, at)
  local i = #counts + 1
  local count = limits[l].kind.read(KEYS[i], limits[l], true)
  if not count then
    error('FOREIGN ' .. i, 0)
  end
  counts[i], times[i], costs[i], ends[i] = count, takenAt, cost, last
  count.isGone = last > 0 and now >= last or mode < 2 and count.life ~= life
end
for i, count in ipairs(counts) do
  local isChanged = not count.isGone
    and count.limit.kind.refund(count, costs[i], mode == 1 and times[i] or nil, mode == 0 and ends[i] or nil)
  if isChanged or count.mustWrite then
    count.limit.kind.write(count)
  end
end
return ''
