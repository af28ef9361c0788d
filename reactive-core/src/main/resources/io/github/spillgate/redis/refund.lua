-- refund.lua: refunds permits of one or more counts.
--
-- KEYS      the keys of the counts; no two are equal; then the keys of their reset marks, or none of these if it is
--           known that there was no reset; or the keys of their refund marks
-- ARGV[1]   the limits, see wire.lua, then
--             mode:1      0 to refund the oldest permits, 1 to refund those of one decision, 2 to refund the oldest
--                         permits, of any instance, and to leave refund marks if there are keys for them
--             then, to the end, for each count
--               limit:2   the position of its limit
--               at:7      the time at which its decision was charged, in milliseconds; 0 without one
--               cost:7    the number of permits, of which at most those that are there are refunded
--               stamp:7   the time of the charge in microseconds: a reset that came later has removed the permits
--                         already, and the refund must not remove others; 0 without a mark
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
local leavesMarks = mode == 2

local counts, times, costs, stamps, ends = {}, {}, {}, {}, {}
while at <= #argument do
  local l, takenAt, cost, stamp, last
  l, takenAt, cost, stamp, last, at = unpackFrom('<I2I7I7I7I7', argument, at)
  local i = #counts + 1
  local count = readCount(KEYS[i], limits[l], true)
  if not count then
    error('FOREIGN ' .. i, 0)
  end
  counts[i], times[i], costs[i], stamps[i], ends[i] = count, takenAt, cost, stamp, last
end
for i, count in ipairs(counts) do
  count.isGone = ends[i] > 0 and now >= ends[i] or not leavesMarks and isReset(KEYS[#counts + i], stamps[i])
end
for i, count in ipairs(counts) do
  local limit, takenAt = count.limit, nil
  if mode == 1 then
    takenAt = times[i]
  elseif mode == 0 and limit.isBucket then
    -- Permits that were charged later than they were taken leave the bucket one reach after that, at the latest.
    takenAt = max(0, ends[i] - reachOf(limit))
  end
  local isChanged = not count.isGone and refundCount(count, costs[i], takenAt)
  if isChanged and leavesMarks and KEYS[#counts + i] then
    call('SET', KEYS[#counts + i], string.format('%.0f', micros), 'PX', reachOf(limit))
  end
  if isChanged or count.mustWrite then
    writeCount(count)
  end
end
return ''
