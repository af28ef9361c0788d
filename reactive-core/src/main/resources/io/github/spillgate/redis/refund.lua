-- refund.lua: gives back permits of one or more counts.
--
-- KEYS          the names of the counts; no two are the same; then those of their marks, which say when they were
--               reset; or none of these, if it is known that no reset has come between
-- ARGV[1]       when they were taken, in milliseconds, to give back just those; '' to give back the oldest
-- ARGV[2]       the same in microseconds: what was taken before a reset is gone already, and is not taken off
--               what came after it
-- ARGV[5i-2 …]  of the i-th count, five each:
--                 kind        'log', 'counter' (windows from the first hit) or 'clock' (windows on the clock)
--                 permits     how many a window holds
--                 window      its length in milliseconds
--                 resolution  of a log, the length of a slot in milliseconds; else 1
--                 cost        how many to give back; no more is given back than is there
--
-- Reply: OK.
--
-- Error 'FOREIGN i': the value under KEYS[i] is foreign. Nothing has been changed then: all counts are read and checked
-- before the first is written.

local takenAt, takenAtMicros = tonumber(ARGV[1]), tonumber(ARGV[2])

-- The number of the entry of this slot, if there is one.
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

-- The entries behind move up by one.
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

local function refundLog(log, permits)
  if not takenAt then
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
    log.expires = 0 -- it follows the newest
  end
  return true
end

local function refundCounter(counter, permits)
  local previous, current = counter.previous, counter.current
  if not takenAt then
    local older = min(previous, permits)
    counter.previous = previous - older
    counter.current = max(0, current - (permits - older))
  elseif takenAt >= counter.start then
    counter.current = max(0, current - permits)
  elseif takenAt >= counter.start - counter.window then
    counter.previous = max(0, previous - permits)
  end
  return counter.previous ~= previous or counter.current ~= current
end

local function isReset(mark)
  local at = takenAt and mark and call('GETRANGE', mark, '0', '-1') or ''
  return at ~= '' and takenAtMicros <= (tonumber(at) or 0)
end

local counts = {}
local number = (#ARGV - 2) / 5
for i = 1, number do
  local a = 5 * i - 2
  local kind, permits, window = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  if kind == 'log' then
    counts[i] = readLog(KEYS[i], {window = window, resolution = tonumber(ARGV[a + 3])}, true)
  else
    counts[i] = readCounter(KEYS[i], kind, permits, window)
  end
  if not counts[i] then
    error('FOREIGN ' .. i, 0)
  end
  counts[i].isReset = isReset(KEYS[number + i])
end
for i, count in ipairs(counts) do
  local a = 5 * i - 2
  local isLog, permits = ARGV[a] == 'log', tonumber(ARGV[a + 4])
  local isChanged = false
  if not count.isReset then
    isChanged = isLog and count.used > 0 and refundLog(count, permits) or not isLog and refundCounter(count, permits)
  end
  if isChanged or count.mended then
    if isLog then
      writeLog(count)
    else
      writeCounter(count)
    end
  end
end
return redis.status_reply('OK')
