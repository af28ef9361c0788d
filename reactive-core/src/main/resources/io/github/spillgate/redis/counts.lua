-- counts.lua: how a count is stored, read and written. It stands before decide.lua, refund.lua and settle.lua, which are the
-- scripts. The last has keys, arguments and errors of its own; those of the others are:
--
-- KEYS[i]       the name of the i-th count; no two are the same
-- ARGV[1]       is the script's own
-- ARGV[6i-4 …]  of the i-th count, six each:
--                 kind        'log', 'counter' (windows from the first hit) or 'clock' (windows on the clock)
--                 permits     how many a window holds
--                 window      its length in milliseconds
--                 resolution  of a log, the length of a slot in milliseconds; else 1
--                 cost        how many permits this is about
--                 denied      '1' if a denied request counts too, else '0'
--
-- Error 'FOREIGN i': under KEYS[i] lies something that no script of ours has written. Nothing has been changed then: all
-- counts are read and checked before the first is written.
--
-- What is stored. Numbers are unsigned, little-endian, of so many bytes:
--
--   counter:  'sgC' previous:7 current:7 start:6
--   log:      'sgL' used:6 newest:6 count:4 base:6 first:4 last:4, then entries of offset:5 count:4
--
-- The hits of one slot are one entry. The newest entry is 'newest' and 'count' in the head: most hits of a busy key fall into
-- the slot that is open already, and the log of a key that is seldom seen fits into Redis's smallest kind of string. The older
-- ones follow in order of time, each in the slot base + offset; those before 'first' have left, those from 'last' on are
-- spare. 'used' is the sum of the counts that had not left when it was written.
--
-- A short log, of SHORT bytes at most, is read and written whole, with two calls. A long one is read in pieces of that length
-- and changed in place. It has spare entries, up to a multiple of 64 (of 256 from 2,048 on); when 'last' passes one, the log is
-- written anew without those that have left. So 'last' alone tells how long the string is, and little of it lies idle.
--
-- The clock is Redis's own, read once. If it has stepped back, what is stamped later than now is pulled to now, and that is
-- written whatever else happens, or a client would be kept out until the clock had caught up. What has left is dropped when
-- something else is written; by a denial or a peek only if it is more than MOST_LEFT entries, which nobody should walk over
-- again and again.

local SHORT = 1024
local LAST_OF_SHORT = '1023' -- as text: Redis takes long to write a number
local HEAD = 33
local ENTRY = 9
local MOST_LEFT = 64
local MOST_ENTRIES = 10000 -- in one log

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function foreign(i)
  error('FOREIGN ' .. i, 0)
end

local function read(i)
  local bytes = redis.pcall('GETRANGE', KEYS[i], '0', LAST_OF_SHORT)
  if type(bytes) == 'table' then
    if string.find(bytes.err, 'WRONGTYPE', 1, true) then
      foreign(i)
    end
    error(bytes.err, 0)
  end
  return bytes
end

-- Logs ---------------------------------------------------------------------------------------------------------------------

-- How long the string of a log is that has so many entries behind its head.
local function lengthOf(last)
  local length = HEAD + last * ENTRY
  if length <= SHORT then
    return length
  end
  local step = last < 2048 and 64 or 256
  return length + (step - last % step) % step * ENTRY
end

-- Takes a long log into hand as a whole, as if it were a short one.
local function takeInHand(log)
  log.bytes = redis.call('GETRANGE', log.key, 0, HEAD + log.last * ENTRY - 1)
  log.from = 0
  log.long = false
end

-- The slot and the count of the n-th entry behind the head.
local function entry(log, n)
  local at = HEAD + n * ENTRY - log.from
  if at < 0 or at + ENTRY > #log.bytes then
    -- A piece that starts here; or ends here, for who is on the way back.
    local from = HEAD + n * ENTRY
    if at + ENTRY == 0 then
      from = HEAD + math.max(0, n + 1 - math.floor(SHORT / ENTRY)) * ENTRY
    end
    log.bytes = redis.call('GETRANGE', log.key, from, from + SHORT - 1)
    at, log.from = HEAD + n * ENTRY - from, from
  end
  local offset, count = struct.unpack('<I5I4', log.bytes, at + 1)
  return log.base + offset, count
end

local function putEntry(log, n, slot, count)
  local at = HEAD + n * ENTRY
  local bytes = struct.pack('<I5I4', slot - log.base, count)
  if log.long then
    redis.call('SETRANGE', log.key, at, bytes)
    log.bytes = ''
  elseif at == #log.bytes then
    log.bytes = log.bytes .. bytes
  else
    log.bytes = string.sub(log.bytes, 1, at) .. bytes .. string.sub(log.bytes, at + ENTRY + 1)
  end
end

-- The log as it is now, without what has left.
local function readLog(i, window, resolution)
  local bytes = read(i)
  local log = {key = KEYS[i], window = window, resolution = resolution, bytes = bytes, from = 0, used = 0, newest = 0,
    count = 0, base = 0, first = 0, last = 0}
  if bytes == '' then
    return log
  end
  if #bytes < HEAD or string.sub(bytes, 1, 3) ~= 'sgL' then
    foreign(i)
  end
  log.used, log.newest, log.count, log.base, log.first, log.last = struct.unpack('<I6I6I4I6I4I4', bytes, 4)
  log.long = HEAD + log.last * ENTRY > SHORT
  local length = log.long and redis.call('STRLEN', log.key) or #bytes
  if length ~= lengthOf(log.last) or log.first > log.last or log.count > log.used then
    foreign(i)
  end

  local slot = math.floor(now / resolution)
  if log.newest > slot then
    takeInHand(log)
    log.newest = slot
    log.mended = true
    while log.last > log.first do
      local older, count = entry(log, log.last - 1)
      if older < slot then
        break
      end
      log.count = log.count + count
      log.last = log.last - 1
    end
  end

  -- A hit leaves when the end of its slot is one window old.
  if (log.newest + 1) * resolution + window <= now then
    log.bytes, log.from, log.long, log.used, log.count, log.first, log.last = '', 0, false, 0, 0, 0, 0
    return log
  end
  local stored = log.first
  while log.first < log.last do
    local older, count = entry(log, log.first)
    if (older + 1) * resolution + window > now then
      break
    end
    log.used = log.used - count
    log.first = log.first + 1
  end
  log.mended = log.mended or log.first - stored > MOST_LEFT
  return log
end

-- Takes away so many of the oldest hits, or all there are.
local function trimLog(log, permits)
  log.used = math.max(0, log.used - permits)
  while permits > 0 and log.first < log.last do
    local slot, count = entry(log, log.first)
    if count > permits then
      putEntry(log, log.first, slot, count - permits)
      return
    end
    permits = permits - count
    log.first = log.first + 1
  end
  log.count = math.max(0, log.count - permits)
end

local function writeLog(log)
  if log.used == 0 then
    redis.call('DEL', log.key)
    return
  end
  local life = math.max(1, (log.newest + 1) * log.resolution + log.window - now)
  if log.long then
    redis.call('SETRANGE', log.key, 0, struct.pack('<c3I6I6I4I6I4I4', 'sgL', log.used, log.newest, log.count, log.base,
      log.first, log.last))
    redis.call('PEXPIRE', log.key, life)
    return
  end
  local last = log.last - log.first
  local bytes = struct.pack('<c3I6I6I4I6I4I4', 'sgL', log.used, log.newest, log.count, log.base, 0, last)
    .. string.sub(log.bytes, HEAD + log.first * ENTRY + 1, HEAD + log.last * ENTRY)
  local spare = lengthOf(last) - #bytes
  if spare > 0 then
    bytes = bytes .. string.rep('\0', spare)
  end
  redis.call('SET', log.key, bytes, 'PX', life)
end

-- Counters -----------------------------------------------------------------------------------------------------------------

-- The counter as it is now: windows that have passed are passed on.
local function readCounter(i, kind, permits, window)
  local opening = kind == 'clock' and now - now % window or now
  local counter = {key = KEYS[i], window = window, previous = 0, current = 0, start = opening}
  local bytes = read(i)
  if bytes == '' then
    return counter
  end
  if #bytes ~= 23 or string.sub(bytes, 1, 3) ~= 'sgC' then
    foreign(i)
  end
  local previous, current, start = struct.unpack('<I7I7I6', bytes, 4)
  if start > opening then
    -- All counts as taken now, and as one full window at most.
    counter.current = math.max(current, math.min(previous + current, permits))
    counter.mended = true
    return counter
  end
  if now - start >= 2 * window then
    return counter
  end
  if now - start >= window then
    previous, current, start = current, 0, start + window
  end
  if previous > 0 or current > 0 then
    counter.previous, counter.current, counter.start = previous, current, start
  end
  return counter
end

local function writeCounter(counter)
  if counter.previous == 0 and counter.current == 0 then
    redis.call('DEL', counter.key)
    return
  end
  redis.call('SET', counter.key, struct.pack('<c3I7I7I6', 'sgC', counter.previous, counter.current, counter.start), 'PX',
    counter.start + 2 * counter.window - now)
end
