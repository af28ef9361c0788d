-- log.lua: reads, changes and writes a log.

-- Returns the last slot in which permits can be charged now, which is that of leased permits.
local function lastSlot(limit)
  return floor((now + leaseTimeOf(limit)) / limit.resolution)
end

-- Reads the whole string of a log, so that writeLog rewrites it.
local function loadWhole(log)
  if not log.whole then
    local length = HEAD + log.last * ENTRY
    log.bytes, log.from, log.whole = call('GETRANGE', log.key, 0, length - 1), 0, true
    if #log.bytes < length then
      error({torn = log.key})
    end
  end
end

-- Returns the slot and the count of the n-th entry behind the head.
local function entry(log, n)
  local at = n - log.from
  if log.whole then
    at = HEAD + n * ENTRY
  else
    if at < 0 or (at + 1) * ENTRY > #log.bytes then
      -- Reads a piece that starts with this entry or, for a loop that runs backwards, ends with it. The pieces of one
      -- loop become longer.
      local isNext = log.piece and (at == -1 or at == log.piece)
      log.piece = isNext and min(2 * log.piece, LONGEST_PIECE) or FIRST_PIECE
      log.from = at == -1 and max(0, n + 1 - log.piece) or n
      log.bytes = call('GETRANGE', log.key, HEAD + log.from * ENTRY, HEAD + (log.from + log.piece) * ENTRY - 1)
      at = n - log.from
      if (at + 1) * ENTRY > #log.bytes then
        error({torn = log.key})
      end
    end
    at = at * ENTRY
  end
  local offset, count = unpackFrom('<I5I4', log.bytes, at + 1)
  return log.base + offset, count
end

local function putEntry(log, n, slot, count)
  local at = HEAD + n * ENTRY
  local bytes = pack('<I5I4', slot - log.base, count)
  if log.whole then
    log.bytes = string.sub(log.bytes, 1, at) .. bytes .. string.sub(log.bytes, at + ENTRY + 1)
  else
    call('SETRANGE', log.key, at, bytes)
    log.bytes, log.from = '', 0
  end
end

-- Returns the slot of the oldest entry behind the head. There must be one.
local function oldestOf(log)
  if not log.oldest then
    log.oldest = entry(log, log.first)
  end
  return log.oldest
end

-- Returns the log without its expired entries, or nil if the value is foreign.
local function readLog(key, limit, checksLength)
  local bytes = read(key)
  if bytes == '' then
    return {key = key, limit = limit, life = 0, bytes = '', from = 0, used = 0, newest = 0, count = 0,
      base = 0, first = 0, last = 0, room = 0, expires = 0, whole = true}
  end
  if not bytes or #bytes < HEAD then
    return nil
  end
  local written, life, used, newest, count, first, last, oldest, base, room, expires =
    unpackFrom('<I3I2I6I6I4I2I2I5I6I2I6', bytes)
  if written ~= A_LOG or first > last or last > room or (room == 0) ~= (#bytes == HEAD) or count > used then
    return nil
  end
  local window, resolution = limit.window, limit.resolution
  local gone = (newest + 1) * resolution + window
  if used > 0 and (expires < gone or expires > gone + 4 * window) then
    return nil
  end
  if checksLength and call('STRLEN', key) ~= HEAD + room * ENTRY then
    return nil
  end

  local log = {key = key, limit = limit, life = life, bytes = '', from = 0, used = used, newest = newest,
    count = count, base = base, first = first, last = last, room = room, oldest = base + oldest, expires = expires}
  if used == 0 or gone <= now then
    -- A hit expires when the end of its slot is one window old.
    log.whole, log.used, log.count, log.first, log.last = true, 0, 0, 0, 0
    return log
  end
  local slot = newest
  if newest * resolution > now then
    slot = lastSlot(limit)
  end
  if newest > slot then
    loadWhole(log)
    log.newest, log.oldest = slot, nil
    log.mustWrite = true
    while log.last > log.first do
      local older, some = entry(log, log.last - 1)
      if older < slot then
        break
      end
      log.count = log.count + some
      log.last = log.last - 1
    end
  end
  local stored = log.first
  while log.first < log.last and (oldestOf(log) + 1) * resolution + window <= now do
    local _, some = entry(log, log.first)
    log.used = log.used - some
    log.first = log.first + 1
    log.oldest = nil
  end
  if log.first - stored > MOST_LEFT then
    log.mustWrite = true
  end
  return log
end

-- Removes the oldest permits: this number, or all.
local function trimLog(log, permits)
  log.used = max(0, log.used - permits)
  while permits > 0 and log.first < log.last do
    local slot, count = entry(log, log.first)
    if count > permits then
      putEntry(log, log.first, slot, count - permits)
      return
    end
    permits = permits - count
    log.first = log.first + 1
    log.oldest = nil
  end
  log.count = max(0, log.count - permits)
end

-- Returns the part of the head that most hits change, for a string in which the first entry is the n-th.
local function frontOf(log, n)
  local oldest = log.first < log.last and oldestOf(log) - log.base or 0
  return pack('<I6I6I4I2I2I5', log.used, log.newest, log.count, n, log.last - log.first + n, oldest)
end

-- Returns the part of the head that few hits change.
local function backOf(log)
  return pack('<I6I2I6', log.base, log.room, log.expires)
end

local function writeLog(log)
  local window = log.limit.window
  local gone = (log.newest + 1) * log.limit.resolution + window
  local changesExpiry = log.whole or log.expires < gone
  if changesExpiry then
    log.expires = max(now + 1, min(max(log.expires, gone + floor(window / 16)), gone + 4 * window))
  end
  if log.whole then
    local number = log.last - log.first
    log.room = number == 0 and 0 or number + min(3 + floor(number / 2), MOST_SPARE)
    local entries = string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
    local spare = string.rep('\0', (log.room - number) * ENTRY)
    call('SET', log.key, pack('<I3I2', A_LOG, log.life) .. frontOf(log, 0) .. backOf(log) .. entries .. spare, 'PX',
      log.expires - now)
    return
  end
  call('SETRANGE', log.key, FRONT,
    frontOf(log, log.first) .. ((changesExpiry or log.isRebased) and backOf(log) or ''))
  if changesExpiry then
    call('PEXPIRE', log.key, log.expires - now)
  end
end

-- Adds permits in a slot, or in the newest one if that is later because permits are leased.
local function addToLog(log, cost, slot)
  slot = slot or floor(now / log.limit.resolution)
  if log.used == 0 then
    log.newest, log.count = slot, cost
  elseif log.newest >= slot or log.last - log.first + 1 >= MOST_ENTRIES then
    -- A log is full only if a reconciliation raised it above its permits and it counts denied requests. Then the newest
    -- hits are kept longer.
    log.newest, log.count = max(slot, log.newest), log.count + cost
  else
    if log.last == log.room then
      loadWhole(log)
    end
    if log.bytes == '' and log.whole then
      log.bytes = string.rep('\0', HEAD) -- it was empty when it was read, and gets a second slot
    end
    if log.first == log.last then
      log.base, log.oldest, log.isRebased = log.newest, log.newest, true
    end
    putEntry(log, log.last, log.newest, log.count)
    log.last = log.last + 1
    log.newest, log.count = slot, cost
  end
  log.used = log.used + cost
end
