-- refund.lua: refunds permits of one or more counts.
--
-- KEYS      the keys of the counts; no two are equal; then the keys of their reset marks, or none of these if it is
--           known that there was no reset; or the keys of their refund marks
-- ARGV[1]   the limits, see wire.lua, then
--             mode:1      0 to refund the oldest permits, 1 to refund those of one decision, 2 to refund the oldest
--                         permits, of any instance, and to leave refund marks if there are keys for them
--             at:7        the time of the decision in milliseconds; 0 without one
--             then, to the end, for each count
--               limit:2   the position of its limit
--               cost:7    the number of permits, of which at most those that are there are refunded
--               stamp:7   the time of the charge in microseconds: a reset that came later has removed the permits
--                         already, and the refund must not remove others; 0 without a mark
--               end:7     the time from which on nothing is refunded, in milliseconds, because the permits may have
--                         left the window, and the refund must not remove others; 0 for none
--
-- Reply: OK.
--
-- Error 'FOREIGN i': the value under KEYS[i] is foreign. Nothing has been changed, because all counts are read before
-- the first is written.

local limits, at = readLimits()
local mode, takenAt
mode, takenAt, at = unpackFrom('<I1I7', argument, at)
local isOldest, leavesMarks = mode ~= 1, mode == 2

-- Returns the number of the entry of this slot, if there is one.
local function find(log, slot)
  local low, high = log.first, log.last - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    local found = entry(log, middle)
    if found == slot then
      return middle
    elseif found < slot then
      low = middle + 1
    else
      high = middle - 1
    end
  end
end

-- Removes an entry and moves the later ones up.
local function removeEntry(log, n)
  local at = HEAD + n * ENTRY
  if log.whole then
    log.bytes = string.sub(log.bytes, 1, at) .. string.sub(log.bytes, at + ENTRY + 1)
  else
    call('SETRANGE', log.key, at, call('GETRANGE', log.key, at + ENTRY, HEAD + log.last * ENTRY - 1))
    log.bytes, log.from, log.piece = '', 0, nil
  end
  log.last, log.oldest = log.last - 1, nil
end

-- Returns whether the log has changed.
local function refundLog(log, permits)
  if isOldest then
    trimLog(log, permits)
    return true
  end
  local slot = floor(takenAt / log.limit.resolution)
  if slot == log.newest then
    permits = min(permits, log.count)
    log.count = log.count - permits
  else
    local n = find(log, slot)
    if not n then
      return false
    end
    local _, count = entry(log, n)
    permits = min(permits, count)
    if permits < count then
      putEntry(log, n, slot, count - permits)
    else
      removeEntry(log, n)
    end
  end
  log.used = log.used - permits
  if log.count == 0 and log.used > 0 then
    log.newest, log.count = entry(log, log.last - 1)
    log.last = log.last - 1
    log.expires = 0 -- because it follows the newest hit
  end
  return true
end

-- Returns whether the counter has changed.
local function refundCounter(counter, permits)
  local previous, current = counter.previous, counter.current
  if isOldest then
    local older = min(previous, permits)
    counter.previous = previous - older
    counter.current = max(0, current - (permits - older))
  elseif takenAt >= counter.start then
    counter.current = max(0, current - permits)
  elseif takenAt >= counter.start - counter.limit.window then
    counter.previous = max(0, previous - permits)
  end
  return counter.previous ~= previous or counter.current ~= current
end

-- Returns whether the bucket has changed.
local function refundBucket(bucket, permits, takenAt)
  local level = levelAt(bucket, now)
  local older = min(bucket.older, level)
  local units, isSinceMark = min(permits * bucket.limit.window, level), false
  if takenAt then
    if takenAt > now then
      return false
    end
    -- What cannot have returned before a mark began, and at most that mark.
    local function left(mark, markedAt)
      return min(mark, permits * bucket.limit.window - max(0, markedAt - takenAt) * bucket.limit.permits)
    end
    units = max(left(bucket.isSetBack and 0 or level, bucket.at), left(older, bucket.olderAt))
    isSinceMark = takenAt >= bucket.at
  end
  if units <= 0 then
    return false
  end
  bucket.level = units < level and bucket.level - units or 0
  bucket.older = isSinceMark and min(older, level - units) or max(0, older - units)
  return true
end

-- Returns whether the count was reset after the charge.
local function isReset(mark, stamp)
  local reset = mark and call('GETRANGE', mark, '0', '-1') or ''
  return reset ~= '' and stamp <= (tonumber(reset) or 0)
end

local counts, costs, stamps, ends = {}, {}, {}, {}
while at <= #argument do
  local l, cost, stamp, last
  l, cost, stamp, last, at = unpackFrom('<I2I7I7I7', argument, at)
  local i = #counts + 1
  local count = readCount(KEYS[i], limits[l], true)
  if not count then
    error('FOREIGN ' .. i, 0)
  end
  counts[i], costs[i], stamps[i], ends[i] = count, cost, stamp, last
end
for i, count in ipairs(counts) do
  count.isGone = ends[i] > 0 and now >= ends[i] or not leavesMarks and isReset(KEYS[#counts + i], stamps[i])
end
for i, count in ipairs(counts) do
  local limit, isChanged = count.limit, false
  if count.isGone then
    isChanged = false
  elseif limit.isLog then
    isChanged = count.used > 0 and refundLog(count, costs[i])
  elseif limit.isBucket then
    -- Permits that were charged later than they were taken leave the bucket one reach after that, at the latest.
    isChanged = refundBucket(count, costs[i],
      mode == 1 and takenAt or mode == 0 and max(0, ends[i] - reachOf(limit)))
  else
    isChanged = refundCounter(count, costs[i])
  end
  if isChanged and leavesMarks and KEYS[#counts + i] then
    call('SET', KEYS[#counts + i], string.format('%.0f', micros), 'PX', reachOf(limit))
  end
  if isChanged or count.mended then
    writeCount(count)
  end
end
return redis.status_reply('OK')
