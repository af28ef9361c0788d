-- holds.lua: the holders of a concurrency limit. HoldCount.java does the same, and explains the rules. The figures of a
-- usage are the used permits, the time when nothing is used any more, and zero. A count of holders has no life.
--
-- The holds of a concurrency limit are in the order in which they were taken. One without permits is the tombstone of a
-- hold that was released first. 'used' is the sum of their permits. Nothing has to be done before the time 'earliest',
-- which is not later than the earliest expiry, unless the clock was set back, so that 'latest', the latest beginning of
-- a hold, lies in the future. The last hold with permits expires at 'last', and nothing is left at 'ends'.

kinds[CONCURRENT] = function()
  local HOLDS_HEAD, HOLD = 31, 28
  local TOMBSTONE_LIFE, MOST_TOMBSTONES = 60000, 64
  local MOST_HELD = 10000
  local NO_EXPIRY = 281474976710655 -- the highest number of six bytes

  -- Returns the expiry, the length and the permits of the hold that begins behind this position.
  local function holdAt(holds, at)
    return unpackFrom('<I6I4I2', holds.entries, at + 17)
  end

  local function noteTimes(holds, expiry, length, permits)
    holds.earliest = min(holds.earliest, expiry)
    holds.latest = max(holds.latest, expiry - length)
    holds.ends = max(holds.ends, expiry)
    if permits > 0 then
      holds.last = max(holds.last, expiry)
    end
  end

  -- Moves what lies in the future to now, and removes what has expired.
  local function visit(holds)
    local kept, entries = {}, holds.entries
    holds.used, holds.earliest, holds.latest, holds.last, holds.ends = 0, NO_EXPIRY, 0, 0, 0
    for at = 0, #entries - 1, HOLD do
      local expiry, length, permits = holdAt(holds, at)
      expiry = min(expiry, now + length)
      if expiry > now then
        kept[#kept + 1] = string.sub(entries, at + 1, at + 16) .. pack('<I6I4I2', expiry, length, permits)
        holds.used = holds.used + permits
        noteTimes(holds, expiry, length, permits)
      end
    end
    holds.entries, holds.mustWrite = table.concat(kept), true
  end

  local function read(key, limit)
    local bytes = firstBytes(key, '-1')
    if bytes == '' then
      return {key = key, limit = limit, entries = '', used = 0, earliest = NO_EXPIRY, latest = 0, last = 0, ends = 0}
    end
    if not bytes or #bytes < HOLDS_HEAD or (#bytes - HOLDS_HEAD) % HOLD ~= 0 then
      return nil
    end
    local written, used, earliest, latest, last, ends = unpackFrom('<I3I4I6I6I6I6', bytes)
    if written ~= HOLDS then
      return nil
    end
    local holds = {key = key, limit = limit, entries = string.sub(bytes, HOLDS_HEAD + 1), used = used,
      earliest = earliest, latest = latest, last = last, ends = ends}
    if latest > now or earliest <= now then
      visit(holds)
    end
    return holds
  end

  local function write(holds)
    if holds.entries == '' then
      call('DEL', holds.key)
    else
      call('SET', holds.key, pack('<I3I4I6I6I6I6', HOLDS, holds.used, holds.earliest, holds.latest, holds.last,
        holds.ends) .. holds.entries, 'PX', holds.ends - now)
    end
  end

  local function usage(holds)
    return holds.used, holds.used > 0 and holds.last or now, 0
  end

  -- Returns the position behind which the hold with this id begins, if there is one.
  local function find(holds, id)
    local at = string.find(holds.entries, id, 1, true)
    while at and (at - 1) % HOLD ~= 0 do
      at = string.find(holds.entries, id, at + 1, true)
    end
    return at and at - 1
  end

  -- A request fits if its permits are held under its id already.
  local function timesThatFit(holds, cost, times, id)
    local at = find(holds, id)
    if at then
      local _, _, held = holdAt(holds, at)
      return held > 0 and times or 0
    end
    return holds.used + cost <= holds.limit.permits and times or 0
  end

  local function add(holds, id, length, permits)
    holds.entries = holds.entries .. id .. pack('<I6I4I2', now + length, length, permits)
    holds.used = holds.used + permits
    noteTimes(holds, now + length, length, permits)
  end

  -- Takes permits, unless they are held under this id already.
  local function take(holds, cost, id)
    if not find(holds, id) then
      add(holds, id, holds.limit.window, cost)
    end
  end

  local function remove(holds, at)
    holds.entries = string.sub(holds.entries, 1, at) .. string.sub(holds.entries, at + HOLD + 1)
  end

  -- Returns whether the permits were held before, and 0 or the status why they are not held now.
  local function renew(holds, cost, id)
    local window, at = holds.limit.window, find(holds, id)
    if not at then
      if holds.used >= MOST_HELD then
        return false, UNWRITTEN
      end
      add(holds, id, window, cost)
      return false, 0
    end
    local expiry, _, held = holdAt(holds, at)
    if held == 0 then
      return false, DENIED
    end
    expiry = max(expiry, now + window)
    holds.entries = string.sub(holds.entries, 1, at + 16) .. pack('<I6I4I2', expiry, expiry - now, held) ..
      string.sub(holds.entries, at + HOLD + 1)
    noteTimes(holds, expiry, expiry - now, held)
    return true, 0
  end

  local function lastExpiry(holds)
    local last = 0
    for at = 0, #holds.entries - 1, HOLD do
      local expiry, _, permits = holdAt(holds, at)
      if permits > 0 then
        last = max(last, expiry)
      end
    end
    return last
  end

  local function release(holds, id)
    local at = find(holds, id)
    if at then
      local expiry, _, held = holdAt(holds, at)
      if held > 0 then
        remove(holds, at)
        holds.used = holds.used - held
        if expiry == holds.last then
          holds.last = lastExpiry(holds)
        end
      end
      return
    end
    add(holds, id, TOMBSTONE_LIFE, 0)
    local oldest, number = nil, 0
    for other = 0, #holds.entries - 1, HOLD do
      local _, _, held = holdAt(holds, other)
      if held == 0 then
        oldest, number = oldest or other, number + 1
      end
    end
    if number > MOST_TOMBSTONES then
      remove(holds, oldest)
    end
  end

  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = take, hasIds = true,
    renew = renew, release = release}
end
