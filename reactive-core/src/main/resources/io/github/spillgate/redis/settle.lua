-- settle.lua: charges what was admitted elsewhere, each settlement once and for itself. What is stored, and the clock,
-- are those of counts.lua.
--
-- KEYS[2i-1]    the name of the count of the i-th settlement
-- KEYS[2i]      its mark: whether it has been charged
-- ARGV[1 …]     of the i-th settlement, as many as there are:
--                 kind        'log', 'counter' (windows from the first hit) or 'clock' (windows on the clock)
--                 permits     how many a window holds; what is charged may pass it
--                 window      its length in milliseconds
--                 resolution  of a log, the length of a slot in milliseconds; else 1
--                 hits        how many follow, the oldest first, three of each:
--                               from     how many milliseconds ago the oldest of them can have been admitted
--                               to       how many milliseconds ago the youngest can have been
--                               permits  how many
--
-- Reply, all integers: the time in milliseconds, then four of each settlement:
--   what became of it: CHARGED now; BEFORE, its mark is there; LEFT, none of it counts any more; FOREIGN, the
--     value is not ours
--   log:      used; the present; when nothing is used any more
--   counter:  previous; current; start of the window
--   foreign:  0, 0, 0
--
-- The mark is set before anything is charged, and stays as long as what was charged can count: whoever sends it again
-- after that has nothing left that counts. No settlement keeps another from being charged; so there is no error for a
-- foreign value, and what has been charged stays so if a later one fails.

local CHARGED, BEFORE, LEFT, FOREIGN = 0, 1, 2, 3
local MOST_PERMITS = 4294967295 -- in one log: no entry of it, nor all of them together, pass four bytes
local EXACT = 9007199254740991 -- doubles hold every integer up to here

-- Logs
-- ---------------------------------------------------------------------------------------------------------------------

-- The hits that count, by slots: those of one slot together. A range of time counts as its youngest end.
local function slotsOf(hits, limit)
  local slots, window, resolution = {}, limit.window, limit.resolution
  for _, some in ipairs(hits) do
    local slot = floor((now - some.to) / resolution)
    if some.permits > 0 and (slot + 1) * resolution + window > now then
      local last = slots[#slots]
      if last and slot <= last.slot then
        last.permits = last.permits + some.permits
      else
        slots[#slots + 1] = {slot = slot, permits = some.permits}
      end
    end
  end
  return slots
end

-- Makes room for hits that are older than any entry can be. What counts is never older than a window.
local function lowerBase(log)
  local base = max(0, floor((now - log.limit.window) / log.limit.resolution))
  local bytes = {string.rep('\0', HEAD)}
  for n = log.first, log.last - 1 do
    local slot, count = entry(log, n)
    bytes[#bytes + 1] = pack('<I5I4', slot - base, count)
  end
  log.bytes, log.base, log.first, log.last, log.oldest = table.concat(bytes), base, 0, log.last - log.first, nil
end

-- The newest are kept where all together would be more than a log can hold. Returns how many of the hits those are.
local function fit(log, slots)
  local room = MOST_PERMITS
  for n = #slots, 1, -1 do
    slots[n].permits = min(slots[n].permits, room)
    room = room - slots[n].permits
  end
  if log.used > room then
    trimLog(log, log.used - room)
  end
  return MOST_PERMITS - room
end

-- The entries together with the hits, both in order of time; what lies between two hits is copied as it is. Where there
-- are as many entries as a log may have, hits are added to the next later one, or the newest is made as late as they
-- are.
local function merge(entries, base, slots)
  local size, merged, done = #entries / ENTRY, {}, 0
  local free = MOST_ENTRIES - size
  local function at(n)
    local offset, count = unpackFrom('<I5I4', entries, n * ENTRY + 1)
    return base + offset, count
  end
  local slot, count -- of the entry that is written next: hits may still be added to it
  local function copyUntil(n)
    if slot then
      merged[#merged + 1] = pack('<I5I4', slot - base, count)
    end
    merged[#merged + 1] = string.sub(entries, done * ENTRY + 1, n * ENTRY)
    slot, count, done = nil, 0, n
  end
  for _, some in ipairs(slots) do
    if slot and some.slot <= slot then
      count = count + some.permits
    elseif some.permits > 0 then
      local low, high = done, size
      while low < high do
        local middle = floor((low + high) / 2)
        if at(middle) < some.slot then
          low = middle + 1
        else
          high = middle
        end
      end
      if low < size and (free <= 0 or at(low) == some.slot) then
        copyUntil(low)
        slot, count = at(low)
        done = low + 1
      elseif free > 0 then
        copyUntil(low)
        slot = some.slot
        free = free - 1
      elseif done < size then
        copyUntil(size - 1)
        slot, count = at(size - 1)
        slot, done = some.slot, size
      else
        slot = some.slot
      end
      count = count + some.permits
    end
  end
  copyUntil(size)
  return table.concat(merged)
end

local function chargeLog(log, slots)
  takeInHand(log)
  local permits = fit(log, slots)
  if log.first == log.last or slots[1].slot < log.base then
    lowerBase(log)
  end
  local entries = string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
  if log.used > 0 then
    entries = entries .. pack('<I5I4', log.newest - log.base, log.count)
  end
  entries = merge(entries, log.base, slots)
  local offset, count = unpackFrom('<I5I4', entries, #entries - ENTRY + 1)
  log.used, log.newest, log.count = log.used + permits, log.base + offset, count
  log.bytes = string.rep('\0', HEAD) .. string.sub(entries, 1, -ENTRY - 1)
  log.first, log.last, log.oldest = 0, #entries / ENTRY - 1, nil
end

-- Counters
-- -----------------------------------------------------------------------------------------------------------------

-- Windows that have passed until this time are passed on, as in readCounter.
local function passOn(counter, kind, time)
  local window, passed = counter.window, time - counter.start
  if passed >= 2 * window or (passed >= window and counter.current == 0) then
    counter.previous, counter.current, counter.start = 0, 0, kind == 'clock' and time - time % window or time
  elseif passed >= window then
    counter.previous, counter.current, counter.start = counter.current, 0, counter.start + window
  end
end

-- What a counter that has nothing would be now, had it got the hits at their time.
local function replay(counter, kind, hits)
  local opened = max(0, now - hits[1].from)
  counter.start = kind == 'clock' and opened - opened % counter.window or opened
  for _, some in ipairs(hits) do
    passOn(counter, kind, max(0, now - some.to))
    counter.current = min(EXACT, counter.current + some.permits)
  end
  passOn(counter, kind, now)
end

-- The counter with the hits; nil if it is the same, because none of them counts any more.
local function chargeCounter(counter, kind, hits)
  local charged = {key = counter.key, window = counter.window, previous = counter.previous, current = counter.current,
    start = counter.start}
  if counter.previous == 0 and counter.current == 0 then
    replay(charged, kind, hits)
  else
    for _, some in ipairs(hits) do
      local time = now - some.to
      if time >= charged.start then
        charged.current = min(EXACT, charged.current + some.permits)
      elseif time >= charged.start - charged.window then
        charged.previous = min(EXACT, charged.previous + some.permits)
      end
    end
  end
  if charged.previous ~= counter.previous or charged.current ~= counter.current then
    return charged
  end
end

-- Whether the settlement has not been charged before.
local function mark(i, life)
  return call('SET', KEYS[2 * i], '', 'NX', 'PX', life)
end

local reply, a = {now}, 1
for i = 1, #KEYS / 2 do
  local kind, permits, window, resolution = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local hits = {}
  for h = 1, tonumber(ARGV[a + 4]) do
    local at = a + 2 + 3 * h
    hits[h] = {from = tonumber(ARGV[at]), to = tonumber(ARGV[at + 1]), permits = tonumber(ARGV[at + 2])}
  end
  a = a + 5 + 3 * #hits

  local limit, count = {window = window, resolution = resolution}, nil
  if kind == 'log' then
    count = readLog(KEYS[2 * i - 1], limit, true)
  else
    count = readCounter(KEYS[2 * i - 1], kind, permits, window)
  end
  local r = 4 * i - 2
  if not count then
    reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = FOREIGN, 0, 0, 0
  elseif kind == 'log' then
    local slots = slotsOf(hits, limit)
    local became = LEFT
    if #slots > 0 then
      became = mark(i, (slots[#slots].slot + 1) * resolution + window - now) and CHARGED or BEFORE
    end
    if became == CHARGED then
      chargeLog(count, slots)
    end
    reply[r], reply[r + 1], reply[r + 2] = became, count.used, now
    reply[r + 3] = count.used > 0 and (count.newest + 1) * resolution + window or now
    if became == CHARGED or count.mended then
      writeLog(count)
    end
  else
    local charged = chargeCounter(count, kind, hits)
    local became = LEFT
    if charged then
      became = mark(i, 2 * window) and CHARGED or BEFORE
    end
    if became == CHARGED then
      count, charged.mended = charged, true
    end
    reply[r], reply[r + 1], reply[r + 2], reply[r + 3] = became, count.previous, count.current, count.start
    if count.mended then
      writeCounter(count)
    end
  end
end
return reply
