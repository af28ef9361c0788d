-- counts.lua: how a count is stored, read and written. It stands before decide.lua, refund.lua and settle.lua, which are the
-- scripts; they say what their keys and arguments are.
--
-- What is stored. Numbers are unsigned, little-endian, of so many bytes:
--
--   counter:  'sgC' previous:7 current:7 start:6
--   log:      'sgL' used:6 newest:6 count:4 first:2 last:2 oldest:5 base:6 room:2 expires:6, then entries of offset:5 count:4
--
-- The hits of one slot are one entry. The newest entry is 'newest' and 'count' in the head: most hits of a busy key fall into
-- the slot that is open already, and the log of a key that is seldom seen fits into Redis's smallest kind of string. The older
-- ones follow in order of time, each in the slot base + offset; those before 'first' have left, those from 'last' on are
-- spare. There is room for 'room' in all. 'oldest' is the offset of the entry 'first', if there is one. 'used' is the sum of the
-- counts that had not left when it was written.
--
-- A log is changed in place, and as little of it is read as can be: Lua takes a nanosecond for every byte of a string that it is
-- given. Mostly the head tells all. When there is no room for one more entry, the log is written anew as a whole, without those
-- that have left and with some room to spare. Its expiry follows the newest hit, but is written only when it would come too
-- early, and is then set somewhat later: so most hits need not write it. A counter's expiry follows its window.
--
-- A value that no script of ours has written is foreign, and is left as it is. One that begins like a log and is shorter than
-- its head says is torn. To look at its length costs another call; who does not is told by an error with the key, when it comes
-- to the missing entries.
--
-- The clock is Redis's own, read once. If it has stepped back, what is stamped later than now is pulled to now, and that is
-- written whatever else happens, or a client would be kept out until the clock had caught up. What has left is dropped when
-- something else is written; by a denial or a peek only if it is more than MOST_LEFT entries, which nobody should walk over
-- again and again.

local A_LOG = 5007219 -- 'sgL'
local A_COUNTER = 4417395 -- 'sgC'
local HEAD = 42
local FRONT = '3'
local BEHIND_HEAD = '42' -- as text: Redis takes long to write a number
local ENTRY = 9
local FIRST_PIECE, LONGEST_PIECE = 16, 512 -- in entries
local MOST_LEFT = 64
local MOST_ENTRIES = 10000 -- in one log
local MOST_SPARE = 256

local call, floor, max, min = redis.call, math.floor, math.max, math.min
local pack, unpackFrom = struct.pack, struct.unpack

local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)

-- What a value begins with, up to the first byte behind a head; '' if there is none; nil if it is not even a string.
local function read(key)
  local bytes = redis.pcall('GETRANGE', key, '0', BEHIND_HEAD)
  if type(bytes) == 'table' then
    if string.find(bytes.err, 'WRONGTYPE', 1, true) then
      return nil
    end
    error(bytes.err, 0)
  end
  return bytes
end

-- Logs ---------------------------------------------------------------------------------------------------------------------

-- Takes the string of a log into hand as a whole; it is then written anew.
local function takeInHand(log)
  if not log.whole then
    local length = HEAD + log.last * ENTRY
    log.bytes, log.from, log.whole = call('GETRANGE', log.key, 0, length - 1), 0, true
    if #log.bytes < length then
      error({torn = log.key})
    end
  end
end

-- The slot and the count of the n-th entry behind the head.
local function entry(log, n)
  local at = n - log.from
  if log.whole then
    at = HEAD + n * ENTRY
  else
    if at < 0 or (at + 1) * ENTRY > #log.bytes then
      -- A piece that starts here; or ends here, for who is on the way back. Who goes on gets longer ones.
      local goesOn = log.piece and (at == -1 or at == log.piece)
      log.piece = goesOn and min(2 * log.piece, LONGEST_PIECE) or FIRST_PIECE
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

-- The slot of the oldest entry behind the head, of which there must be one.
local function oldestOf(log)
  if not log.oldest then
    log.oldest = entry(log, log.first)
  end
  return log.oldest
end

-- The log as it is now, without what has left; nil if the value is foreign. Of a limit, window and resolution are looked at.
local function readLog(key, limit, looksAtLength)
  local bytes = read(key)
  if bytes == '' then
    return {key = key, limit = limit, bytes = '', from = 0, used = 0, newest = 0, count = 0,
      base = 0, first = 0, last = 0, room = 0, expires = 0, whole = true}
  end
  if not bytes or #bytes < HEAD then
    return nil
  end
  local written, used, newest, count, first, last, oldest, base, room, expires =
    unpackFrom('<I3I6I6I4I2I2I5I6I2I6', bytes)
  if written ~= A_LOG or first > last or last > room or (room == 0) ~= (#bytes == HEAD) or count > used then
    return nil
  end
  local window, resolution = limit.window, limit.resolution
  local gone = (newest + 1) * resolution + window
  if expires < gone or expires > gone + window then
    return nil
  end
  if looksAtLength and call('STRLEN', key) ~= HEAD + room * ENTRY then
    return nil
  end

  local log = {key = key, limit = limit, bytes = '', from = 0, used = used, newest = newest,
    count = count, base = base, first = first, last = last, room = room, oldest = base + oldest, expires = expires}
  local slot = floor(now / resolution)
  if newest > slot then
    takeInHand(log)
    log.newest, log.oldest = slot, nil
    log.mended = true
    while log.last > log.first do
      local older, some = entry(log, log.last - 1)
      if older < slot then
        break
      end
      log.count = log.count + some
      log.last = log.last - 1
    end
  elseif gone <= now then
    -- A hit leaves when the end of its slot is one window old.
    log.whole, log.used, log.count, log.first, log.last = true, 0, 0, 0, 0
    return log
  end
  local stored = log.first
  while log.first < log.last and (oldestOf(log) + 1) * resolution + window <= now do
    local _, some = entry(log, log.first)
    log.used = log.used - some
    log.first = log.first + 1
    log.oldest = nil
  end
  if log.first - stored > MOST_LEFT then
    log.mended = true
  end
  return log
end

-- Takes away so many of the oldest hits, or all there are.
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

-- Where the first of a log's entries is to be the n-th: what changes with nearly every hit, and what seldom does.
local function frontOf(log, n)
  local oldest = log.first < log.last and oldestOf(log) - log.base or 0
  return pack('<I6I6I4I2I2I5', log.used, log.newest, log.count, n, log.last - log.first + n, oldest)
end

local function backOf(log)
  return pack('<I6I2I6', log.base, log.room, log.expires)
end

local function writeLog(log)
  if log.used == 0 then
    call('DEL', log.key)
    return
  end
  local gone = (log.newest + 1) * log.limit.resolution + log.limit.window
  local isLate = log.whole or log.expires < gone
  if isLate then
    log.expires = max(now + 1, gone + floor(log.limit.window / 16))
  end
  if log.whole then
    local number = log.last - log.first
    log.room = number == 0 and 0 or number + min(3 + floor(number / 2), MOST_SPARE)
    local entries = string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
    local spare = string.rep('\0', (log.room - number) * ENTRY)
    call('SET', log.key, 'sgL' .. frontOf(log, 0) .. backOf(log) .. entries .. spare, 'PX', log.expires - now)
    return
  end
  if isLate then
    call('SETRANGE', log.key, FRONT, frontOf(log, log.first) .. backOf(log))
    call('PEXPIRE', log.key, log.expires - now)
  else
    call('SETRANGE', log.key, FRONT, frontOf(log, log.first))
  end
end

-- Counters -----------------------------------------------------------------------------------------------------------------

-- The counter as it is now: windows that have passed are passed on; nil if the value is foreign.
local function readCounter(key, kind, permits, window)
  local opening = kind == 'clock' and now - now % window or now
  local bytes = read(key)
  if bytes == '' then
    return {key = key, window = window, previous = 0, current = 0, start = opening}
  end
  if not bytes or #bytes ~= 23 then
    return nil
  end
  local written, previous, current, start = unpackFrom('<I3I7I7I6', bytes)
  if written ~= A_COUNTER then
    return nil
  end
  if start > opening then
    -- All counts as taken now, and as one full window at most.
    return {key = key, window = window, previous = 0, current = max(current, min(previous + current, permits)),
      start = opening, mended = true}
  end
  local stored = start
  if now - start >= window then
    previous, current, start = current, 0, start + window
  end
  if now - start >= window or (previous == 0 and current == 0) then
    return {key = key, window = window, previous = 0, current = 0, start = opening}
  end
  return {key = key, window = window, previous = previous, current = current, start = start, inPlace = start == stored}
end

local function writeCounter(counter)
  if counter.previous == 0 and counter.current == 0 then
    call('DEL', counter.key)
  elseif counter.inPlace then
    call('SETRANGE', counter.key, '3', pack('<I7I7', counter.previous, counter.current))
  else
    call('SET', counter.key, pack('<I3I7I7I6', A_COUNTER, counter.previous, counter.current, counter.start), 'PX',
      counter.start + 2 * counter.window - now)
  end
end
