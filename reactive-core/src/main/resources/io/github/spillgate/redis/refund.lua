-- refund.lua: gives back permits of one or more counts. KEYS, ARGV and errors are those of counts.lua.
--
-- ARGV[1]       when they were taken, in milliseconds, to give back just those; '' to give back the oldest
-- cost          how many to give back; no more is given back than is there
--
-- Reply: OK.

local takenAt = tonumber(ARGV[1])

-- The number of the entry of this slot, if there is one.
local function find(log, slot)
  local low, high = log.first, log.last - 1
  while low <= high do
    local middle = math.floor((low + high) / 2)
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

-- The entries behind move up by one, in place if the string stays as long as it is.
local function removeEntry(log, n)
  if log.long and lengthOf(log.last - 1) ~= lengthOf(log.last) then
    takeInHand(log)
  end
  local at = HEAD + n * ENTRY
  if log.long then
    local behind = redis.call('GETRANGE', log.key, at + ENTRY, HEAD + log.last * ENTRY - 1)
    redis.call('SETRANGE', log.key, at, behind)
    log.bytes = ''
  else
    log.bytes = string.sub(log.bytes, 1, at) .. string.sub(log.bytes, at + ENTRY + 1)
  end
  log.last = log.last - 1
end

local function refundLog(log, permits)
  if not takenAt then
    trimLog(log, permits)
    return true
  end
  local slot = math.floor(takenAt / log.resolution)
  if slot == log.newest then
    permits = math.min(permits, log.count)
    log.count = log.count - permits
  else
    local n = find(log, slot)
    if not n then
      return false
    end
    local _, count = entry(log, n)
    permits = math.min(permits, count)
    if permits < count then
      putEntry(log, n, slot, count - permits)
    else
      removeEntry(log, n)
    end
  end
  log.used = log.used - permits
  if log.count == 0 and log.used > 0 then
    log.newest, log.count = entry(log, log.last - 1)
    removeEntry(log, log.last - 1)
  end
  return true
end

local function refundCounter(counter, permits)
  local previous, current = counter.previous, counter.current
  if not takenAt then
    local older = math.min(previous, permits)
    counter.previous = previous - older
    counter.current = math.max(0, current - (permits - older))
  elseif takenAt >= counter.start then
    counter.current = math.max(0, current - permits)
  elseif takenAt >= counter.start - counter.window then
    counter.previous = math.max(0, previous - permits)
  end
  return counter.previous ~= previous or counter.current ~= current
end

local counts = {}
for i = 1, #KEYS do
  local a = 6 * i - 4
  local kind, window = ARGV[a], tonumber(ARGV[a + 2])
  if kind == 'log' then
    counts[i] = readLog(i, window, tonumber(ARGV[a + 3]))
  else
    counts[i] = readCounter(i, kind, tonumber(ARGV[a + 1]), window)
  end
end
for i = 1, #KEYS do
  local a = 6 * i - 4
  local count, permits = counts[i], tonumber(ARGV[a + 4])
  if ARGV[a] == 'log' then
    if count.used > 0 and refundLog(count, permits) or count.mended then
      writeLog(count)
    end
  elseif refundCounter(count, permits) or count.mended then
    writeCounter(count)
  end
end
return redis.status_reply('OK')
