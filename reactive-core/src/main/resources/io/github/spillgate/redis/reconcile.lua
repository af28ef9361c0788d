-- reconcile.lua: charges permits that were granted elsewhere, and restores permits that this server has lost. Each
-- reconciliation is independent of the others and is charged once.
--
-- KEYS[4i-3]   the key of the count of the i-th reconciliation
-- KEYS[4i-2]   the key of the mark of its source, which holds the number of its last charge on this count, and the life
--              in which that was made
-- KEYS[4i-1]   the key of the reset mark of the count
-- KEYS[4i]     the key of the mark of what was restored in the count
-- ARGV[1]      the limits, see wire.lua, and then, to the end, for each reconciliation
--                limit:2      the position of its limit; the charge may exceed it
--                number:7     the number of the reconciliation: those of one source on one count ascend
--                grants:4, then for each, the oldest first
--                  from:7     the highest age of its permits in milliseconds
--                  to:7       the lowest age of its permits in milliseconds
--                  permits:7
--                lost:1, then for each lost life of the count
--                  life:2
--                  since:7    the time of the last reply with these permits in microseconds: if the count was reset
--                             since then, they are not restored
--                  grants:4, as above, of the permits in use
--
-- Reply: the time, and the usage of each count, see wire.lua. 'granted' is 1 if the reconciliation has been charged
-- or restored now, and 0 if it was charged before, no longer counts, or the value is foreign.
--
-- The mark is set before the charge, and lives as long as the charge can count, but at most an hour: a reconciliation
-- that is sent again even later is charged twice, towards denying. If the count has lost its data since, it is charged
-- again. A foreign value is a status and not an error, because it must not prevent the other charges. Those that have
-- been made remain if a later one fails.

local MOST_EXACT = 9007199254740991 -- doubles hold all integers up to this one
local LONGEST_MARK = 3600000 -- in milliseconds
local MOST_PERMITS = 4294967295 -- in one log: the sum of its entries fits into four bytes

-- Logs
-- ---------------------------------------------------------------------------------------------------------------------

-- Returns the grants that still count, one entry for each slot. Permits count from the end of their range of time.
local function slotsOf(grants, limit)
  local slots, window, resolution = {}, limit.window, limit.resolution
  for _, some in ipairs(grants) do
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

-- Lowers the base, so that grants can be stored that are older than all entries. No grant that counts is older than a
-- window.
local function lowerBase(log)
  local base = max(0, floor((now - log.limit.window) / log.limit.resolution))
  local bytes = {string.rep('\0', HEAD)}
  for n = log.first, log.last - 1 do
    local slot, count = entry(log, n)
    bytes[#bytes + 1] = pack('<I5I4', slot - base, count)
  end
  log.bytes, log.base, log.first, log.last, log.oldest = table.concat(bytes), base, 0, log.last - log.first, nil
end

-- Drops the oldest permits above what a log can hold. Returns the number of new permits that are kept.
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

-- Returns the entries merged with the grants, in order of time. Entries between two grants are copied in one piece. If
-- the log has as many entries as it may have, a grant is added to the next later entry; if there is none, the newest
-- entry moves to the time of the grant.
local function merge(entries, base, slots)
  local size, merged, done = #entries / ENTRY, {}, 0
  local free = MOST_ENTRIES - size
  local function at(n)
    local offset, count = unpackFrom('<I5I4', entries, n * ENTRY + 1)
    return base + offset, count
  end
  local slot, count -- of the next entry to write, to which grants may still be added
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
  loadWhole(log)
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
-- ---------------------------------------------------------------------------------------------------------------------

-- Returns the start of a window that opens at this time.
local function openingAt(limit, time)
  return limit.isAligned and time - time % limit.window or time
end

-- Advances the counter to the window at this time, as readCounter does.
local function advance(counter, time)
  local window, passed = counter.limit.window, time - counter.start
  if passed >= 2 * window or (passed >= window and counter.current == 0) then
    counter.previous, counter.current = 0, 0
    counter.start = openingAt(counter.limit, time)
  elseif passed >= window then
    counter.previous, counter.current, counter.start = counter.current, 0, counter.start + window
  end
end

-- Adds the grants to an empty counter, as if they had been taken at their times.
local function replay(counter, grants)
  counter.start = openingAt(counter.limit, max(0, now - grants[1].from))
  counter.isInPlace = nil
  for _, some in ipairs(grants) do
    advance(counter, max(0, now - some.to))
    counter.current = min(MOST_EXACT, counter.current + some.permits)
  end
  advance(counter, now)
end

-- Returns a counter to be written in place of this one. Its windows may begin earlier, but it expires as late as one
-- that begins now, and so not before the stored one.
local function successorOf(counter, previous, current)
  local expires = counter.life > 0 and openingAt(counter.limit, now) + 2 * counter.limit.window or 0
  return {key = counter.key, limit = counter.limit, life = counter.life, previous = previous, current = current,
    start = counter.start, isInPlace = counter.isInPlace, expires = expires}
end

-- Returns the counter with the grants, or nil if none of them counts any more.
local function chargeCounter(counter, grants)
  local charged = successorOf(counter, counter.previous, counter.current)
  local began = max(0, now - grants[1].from)
  if counter.previous == 0 and (counter.current == 0 or began < counter.start) then
    -- Taken here, the grants would have opened the windows. In an earlier window than that of the other permits, they
    -- would begin to fade at once.
    charged.current = 0
    replay(charged, grants)
    if charged.previous == 0 and charged.current == 0 then
      return nil
    end
    charged.current = min(MOST_EXACT, charged.current + counter.current)
  else
    for _, some in ipairs(grants) do
      local time = now - some.to
      if time >= charged.start then
        charged.current = min(MOST_EXACT, charged.current + some.permits)
      elseif time >= charged.start - charged.limit.window then
        charged.previous = min(MOST_EXACT, charged.previous + some.permits)
      end
    end
  end
  if charged.previous ~= counter.previous or charged.current ~= counter.current then
    return charged
  end
end

-- Buckets
-- ---------------------------------------------------------------------------------------------------------------------

-- Returns the bucket with the grants, or nil if none of them counts any more. A grant counts from its time on, as if it
-- had been taken then. If the bucket has changed since, it is not known how long it was empty after the grant. Then the
-- grant counts from that change on.
local function chargeBucket(bucket, grants)
  local limit, charged, charges = bucket.limit, {}, false
  for name, value in pairs(bucket) do
    charged[name] = value
  end
  for _, some in ipairs(grants) do
    if some.permits > 0 and some.to < reachOf(limit) then
      local time = max(now - some.to, charged.at)
      addToBucket(charged, min(some.permits * limit.window, MOST_EXACT - levelAt(charged, time)), time)
      charges = true
    end
  end
  if charges then
    return charged
  end
end

-- Restoring
-- ---------------------------------------------------------------------------------------------------------------------

-- Returns the life without its number of resets.
local function lifeOf(count)
  return floor(count.life / RESETS)
end

-- Returns the mark of what was restored into this life: for each lost life, three numbers that depend on the kind.
local function readRestored(key, life)
  local mark, restored = redis.pcall('GETRANGE', key, '0', '-1'), {}
  if type(mark) == 'string' and tonumber(string.match(mark, '^%d+') or '') == life then
    for from, first, second, third in string.gmatch(mark, ' (%d+) (%d+) (%d+) (%d+)') do
      restored[#restored + 1] = {life = tonumber(from), tonumber(first), tonumber(second), tonumber(third)}
    end
  end
  return restored
end

-- The next functions restore one kind of count. All permits in it were granted since, and count in addition, but for
-- those that another instance has restored of the same life. Each returns the count, and three numbers for the mark, of
-- this and earlier restorations; without them, nothing was restored.

-- The n-th youngest restored permit is as young as the n-th youngest that any instance knew. The mark holds the number
-- of restored permits, the slot of the latest of them, and how many were restored into that slot: it may be that in
-- which others were granted since.
local function restoreLog(log, grants, earlier)
  local known, entries = slotsOf(grants, log.limit), {}
  loadWhole(log)
  for n = log.first, log.last - 1 do
    local slot, permits = entry(log, n)
    entries[#entries + 1] = {slot = slot, permits = permits}
  end
  if log.used > 0 then
    entries[#entries + 1] = {slot = log.newest, permits = log.count}
  end

  -- The youngest permits that may have been restored before, and all others.
  local most, last, inLast = 0, 0, 0
  if earlier then
    most, last, inLast = earlier[1], earlier[2], earlier[3]
  end
  local tooMany, has, rest = -most, 0, {used = 0, newest = log.newest, count = 0, string.rep('\0', HEAD)}
  for _, one in ipairs(entries) do
    one.restored = one.slot < last and one.permits or one.slot == last and min(one.permits, inLast) or 0
    tooMany = tooMany + one.restored
  end
  for _, one in ipairs(entries) do
    local less = min(max(0, tooMany), one.restored)
    tooMany = tooMany - less
    one.restored = one.restored - less
    has = has + one.restored
    if one.permits > one.restored then
      if rest.count > 0 then
        rest[#rest + 1] = pack('<I5I4', rest.newest - log.base, rest.count)
      end
      rest.newest, rest.count = one.slot, one.permits - one.restored
      rest.used = rest.used + rest.count
    end
  end

  -- As many in each slot and later ones as in either.
  local END, all, knows, i, j, isMore, latest = {slot = MOST_EXACT}, {}, 0, 1, 1, false, 0
  for _, some in ipairs(known) do
    knows = knows + some.permits
    latest = some.slot
  end
  local number = max(has, knows)
  last = max(last, latest)
  inLast = 0
  while entries[i] or known[j] do
    local before = max(has, knows)
    local slot = min((entries[i] or END).slot, (known[j] or END).slot)
    isMore = isMore or knows > has
    if entries[i] and entries[i].slot == slot then
      has = has - entries[i].restored
      i = i + 1
    end
    if known[j] and known[j].slot == slot then
      knows = knows - known[j].permits
      j = j + 1
    end
    local permits = before - max(has, knows)
    if permits > 0 then
      all[#all + 1] = {slot = slot, permits = permits}
      inLast = slot == last and permits or 0
    end
  end
  if not isMore then
    return log
  end
  log.used, log.newest, log.count = rest.used, rest.newest, rest.count
  log.bytes, log.first, log.last, log.oldest = table.concat(rest), 0, #rest - 1, nil
  chargeLog(log, all)
  return log, number, last, inLast
end

-- Moves a counter to the next window, if that of another counter of the same life is nearer to it: two messages are in
-- flight for different times.
local function follow(counter, other)
  if other.start - counter.start > counter.limit.window / 2 then
    counter.previous, counter.current = counter.current, 0
  end
end

-- Each window gets as many restored permits as any instance knew there. The mark holds the start of the window, and the
-- restored permits of the previous and of this window.
local function restoreCounter(counter, grants, earlier)
  local window, known, has = counter.limit.window, successorOf(counter, 0, 0), successorOf(counter, 0, 0)
  replay(known, grants)
  if earlier then
    has.start, has.previous, has.current = min(openingAt(counter.limit, now), earlier[1]), earlier[2], earlier[3]
    advance(has, now)
  end
  if has.previous == 0 and has.current == 0 then
    has.start = known.start
  end
  follow(has, known)
  follow(known, has)
  local previous, current = max(0, known.previous - has.previous), max(0, known.current - has.current)
  if previous == 0 and current == 0 then
    return counter
  end
  local restored = successorOf(counter, previous, current)
  restored.isInPlace, restored.start = nil, known.start
  if math.abs(counter.start - known.start) >= window / 2 then
    -- Windows that begin at other times: what is left of the permits counts in this one.
    local left = math.ceil(counter.previous * (window - now + counter.start) / window)
    restored.current = current + counter.current + left
  elseif counter.previous > 0 or counter.current > 0 then
    restored.previous, restored.current = previous + counter.previous, current + counter.current
    restored.start = max(counter.start, known.start)
  end
  restored.previous, restored.current = min(MOST_EXACT, restored.previous), min(MOST_EXACT, restored.current)
  return restored, max(has.start, known.start), previous + has.previous, current + has.current
end

-- Lost permits return only once they are restored: until then others in the bucket return in their place. The mark has
-- the number of restored permits, and the time of the restoration in milliseconds.
local function restoreBucket(bucket, grants, earlier)
  local limit, most, has = bucket.limit, 0, 0
  for _, some in ipairs(grants) do
    most = most + (some.to < reachOf(limit) and some.permits or 0)
  end
  if earlier then
    has = max(0, earlier[1] * limit.window - max(0, now - earlier[2]) * limit.permits)
  end
  local missing = min(most * limit.window - has, MOST_EXACT - levelAt(bucket, now))
  if missing > 0 then
    addToBucket(bucket, missing, now)
    return bucket, most, now, 0
  end
  return bucket
end

-- Restores permits of a lost life, as far as no other instance has restored them. Returns the count, and whether it has
-- restored any.
local function restore(count, resetMark, key, life, since, grants)
  local reset = redis.pcall('GETRANGE', resetMark, '0', '-1')
  if floor(life / RESETS) == lifeOf(count) or type(reset) == 'string' and (tonumber(reset) or -1) >= since then
    return count, false
  end
  local limit, marks, earlier = count.limit, readRestored(key, lifeOf(count)), nil
  for n, one in ipairs(marks) do
    if floor(one.life / RESETS) == floor(life / RESETS) then
      earlier = table.remove(marks, n)
      break
    end
  end
  local restoreKind = limit.isLog and restoreLog or limit.isBucket and restoreBucket or restoreCounter
  local restored, first, second, third = restoreKind(count, grants, earlier)
  if not first then
    return count, false
  end
  change(restored)
  local mark = {lifeOf(restored), string.format('%.0f %.0f %.0f %.0f', life, first, second, third)}
  local other = marks[1]
  if other then
    mark[3] = string.format('%.0f %.0f %.0f %.0f', other.life, other[1], other[2], other[3])
  end
  call('SET', key, table.concat(mark, ' '), 'PX', reachOf(limit))
  return restored, true
end

-- Charges the grants, unless they were charged before or no longer count. Returns the count, and whether it has been
-- charged now.
local function reconcile(count, mark, number, grants)
  local limit, charged, reach = count.limit, nil, reachOf(count.limit)
  local slots = limit.isLog and slotsOf(grants, limit)
  if slots then
    charged = #slots > 0 and count
    reach = charged and (slots[#slots].slot + 1) * limit.resolution + limit.window - now
  elseif limit.isBucket then
    charged = chargeBucket(count, grants)
  else
    charged = chargeCounter(count, grants)
  end
  local before = charged and redis.pcall('GETRANGE', mark, '0', '-1')
  local last, life = string.match(type(before) == 'string' and before or '', '^(%d+) (%d+)$')
  if not charged or tonumber(life) == lifeOf(count) and number <= tonumber(last) then
    return count, false
  end
  change(charged)
  call('SET', mark, string.format('%.0f %d', number, lifeOf(charged)), 'PX', min(reach, LONGEST_MARK))
  if slots then
    chargeLog(charged, slots)
  end
  -- Even an empty bucket is kept for a while: the time in which these grants have returned must not count once more
  -- for those of another instance.
  charged.least = limit.isBucket and reach
  return charged, true
end

local limits, at = readLimits()

local function readGrants()
  local grants, number = {}, nil
  number, at = unpackFrom('<I4', argument, at)
  for h = 1, number do
    local from, to, permits
    from, to, permits, at = unpackFrom('<I7I7I7', argument, at)
    grants[h] = {from = from, to = to, permits = permits}
  end
  return grants
end

local reply = {pack('<I7', micros)}
for i = 1, #KEYS / 4 do
  local l, number, grants, lost
  l, number, at = unpackFrom('<I2I7', argument, at)
  grants = readGrants()
  lost, at = unpackFrom('<I1', argument, at)
  local count = readCount(KEYS[4 * i - 3], limits[l], true)
  local isChanged, isAny = false, false
  if count and #grants > 0 then
    count, isAny = reconcile(count, KEYS[4 * i - 2], number, grants)
  end
  for _ = 1, lost do
    local life, since, some
    life, since, at = unpackFrom('<I2I7', argument, at)
    some = readGrants()
    if count and #some > 0 then
      count, isChanged = restore(count, KEYS[4 * i - 1], KEYS[4 * i], life, since, some)
      isAny = isAny or isChanged
    end
  end
  if count and count.least then
    writeBucket(count, count.least)
  elseif count and count.mustWrite then
    writeCount(count)
  end
  reply[i + 1] = count and usageOf(count, isAny and 1 or 0, 0, now) or usageOf(nil, 0, FOREIGN)
end
return table.concat(reply)
