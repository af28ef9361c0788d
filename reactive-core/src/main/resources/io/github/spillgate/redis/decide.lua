-- decide.lua: one verdict over one or more counts, all or nothing. KEYS, ARGV and errors are those of counts.lua.
--
-- ARGV[1]       'take' to charge, 'peek' to tell what charging would answer
-- cost          0 to permits
--
-- Reply, all integers: the time in milliseconds, then four of each count, as it is after the verdict:
--   log:      1 if the cost did not fit, else 0; used; when the cost fits; when nothing is used any more
--   counter:  1 if the cost did not fit, else 0; previous; current; start of the window
-- "When the cost fits" is looked up where the verdict is a denial, and is the present else.

local EXACT = 9007199254740992 -- doubles hold every integer up to here

local function addToLog(log, cost)
  local slot = math.floor(now / log.resolution)
  if log.used == 0 then
    log.newest, log.count = slot, cost
  elseif log.newest == slot or log.last - log.first + 1 >= MOST_ENTRIES then
    -- A log is full only where it was settled above its permits and counts denials. The newest hits stay longer then.
    log.newest, log.count = slot, log.count + cost
  else
    if log.first == log.last then
      log.base = log.newest
    end
    if log.long and lengthOf(log.last + 1) ~= lengthOf(log.last) then
      takeInHand(log)
    end
    putEntry(log, log.last, log.newest, log.count)
    log.last = log.last + 1
    log.newest, log.count = slot, cost
  end
  log.used = log.used + cost
end

-- When enough of the oldest hits have left. They are counted from the oldest on, or, if that is nearer, from the newest back.
local function whenLogFits(log, permits, cost)
  local missing = log.used + cost - permits
  if missing <= 0 then
    return now
  end
  local leaving = log.newest
  if missing <= log.used / 2 then
    for n = log.first, log.last - 1 do
      local slot, count = entry(log, n)
      missing = missing - count
      if missing <= 0 then
        leaving = slot
        break
      end
    end
  else
    local before = log.used - log.count
    local n = log.last
    while before >= missing do
      n = n - 1
      local slot, count = entry(log, n)
      leaving = slot
      before = before - count
    end
  end
  return (leaving + 1) * log.resolution + log.window
end

-- previous × (1 − elapsed/window) + current + cost ≤ permits, without a division: the products of integers are exact up to
-- EXACT, and rounding beyond never turns an order around. What is equal only by rounding does not fit.
local function counterFits(counter, permits, cost)
  local free = permits - counter.current - cost
  if free < 0 or free >= counter.previous then
    return free >= 0
  end
  local taken = counter.previous * (counter.window - (now - counter.start))
  local held = free * counter.window
  return taken < held or (taken == held and taken <= EXACT)
end

local counts, fits, allowed = {}, {}, true
for i = 1, #KEYS do
  local a = 6 * i - 4
  local kind, permits, window, cost = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 4])
  if kind == 'log' then
    counts[i] = readLog(i, window, tonumber(ARGV[a + 3]))
    fits[i] = counts[i].used + cost <= permits
  else
    counts[i] = readCounter(i, kind, permits, window)
    fits[i] = counterFits(counts[i], permits, cost)
  end
  allowed = allowed and fits[i]
end

local reply = {now}
for i = 1, #KEYS do
  local a = 6 * i - 4
  local count, permits, cost = counts[i], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 4])
  local isLog = ARGV[a] == 'log'
  local changed = count.mended
  if ARGV[1] == 'take' and cost > 0 then
    if allowed then
      if isLog then
        addToLog(count, cost)
      else
        count.current = count.current + cost
      end
      changed = true
    elseif ARGV[a + 5] == '1' then
      -- Only as much as keeps the client out: of a log the newest that are permitted, of a counter one full window.
      if isLog then
        local most = math.max(count.used, permits)
        addToLog(count, cost)
        if count.used > most then
          trimLog(count, count.used - most)
        end
      else
        count.current = math.max(count.current, math.min(count.current + cost, permits))
      end
      changed = true
    end
  end
  local r = 4 * i - 2
  reply[r] = fits[i] and 0 or 1
  if isLog then
    reply[r + 1] = count.used
    reply[r + 2] = allowed and now or whenLogFits(count, permits, cost)
    reply[r + 3] = count.used > 0 and (count.newest + 1) * count.resolution + count.window or now
    if changed then
      writeLog(count)
    end
  else
    reply[r + 1], reply[r + 2], reply[r + 3] = count.previous, count.current, count.start
    if changed then
      writeCounter(count)
    end
  end
end
return reply
