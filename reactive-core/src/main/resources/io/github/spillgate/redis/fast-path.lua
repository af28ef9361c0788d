-- fast-path.lua: decides groups from the first one on, as long as each of them is on a single count, is granted as a
-- whole, and needs little to be read and written. These are most commands. decide.lua describes the argument and the
-- reply, and decides the rest. This file does what the functions of log.lua, counter.lua and bucket.lua do, in one
-- piece and without their tables. It runs before those functions are created, which takes longer than such a decision.
--
-- Each group is charged by its last write. If a write fails, the group has not been charged.

local LIMIT, GROUP = 27, 24 -- bytes; a group with one count
local SHORT, BEHIND_SHORT_LOG = 40, '404' -- a log with room for so many entries is read and written as a whole
local BEHIND_FRONT = 31 -- the first byte behind the part of a log's head that most hits change

local usages, decided = nil, 0 -- the usages of the decided groups, and their number
local rest = 3 + LIMIT * unpackFrom('<I2', argument) -- the position of the first group that is not decided
local known, kind, permits, window, resolution, option = 0, 0, 0, 0, 0, 0 -- a limit

while rest <= #argument do
  local mode, times, deadline, counts, k, l, cost = unpackFrom('<I1I4I7I1I2I2I7', argument, rest)
  if l ~= known then
    known, kind, permits, window, resolution, option = l, unpackFrom('<I1I7I6I6I1', argument, 3 + LIMIT * (l - 1))
  end
  if mode ~= TAKE or counts ~= 1 or cost == 0 or kind > BUCKET or option == 1 or isLate(deadline) then
    break
  end
  local key = KEYS[k]
  local bytes = redis.pcall('GETRANGE', key, '0', BEHIND_SHORT_LOG)
  local length = #bytes -- 0 if it is an error
  local isEmpty = bytes == ''
  local format, life = 0, birth
  local written, first, second, third = nil, 0, 0, 0 -- the last write, and the figures of the usage
  cost = cost * times -- rounded only if it is above all permits

  if kind == LOG then
    local slot = floor(now / resolution)
    local leaves = (slot + 1) * resolution + window
    local used, newest, count, from, to, oldest, base, room, expires = 0, 0, 0, 0, 0, 0, 0, 0, 0
    local isKnown, isShort = isEmpty, false
    if length >= HEAD then
      format, life, used, newest, count, from, to, oldest, base, room, expires =
        unpackFrom('<I3I2I6I6I4I2I2I5I6I2I6', bytes)
      local gone = (newest + 1) * resolution + window
      isShort = room <= SHORT
      isEmpty = used == 0 or gone <= now
      isKnown = format == A_LOG and from <= to and to <= room and count <= used
        and (used == 0 or gone <= expires and expires <= gone + 4 * window and newest <= slot)
        and length == HEAD + (isShort and room * ENTRY or SHORT * ENTRY + 1)
    end

    -- Entries that have expired, which are the oldest.
    if isKnown and not isEmpty and from < to and (base + oldest + 1) * resolution + window <= now then
      local piece, at, most = bytes, HEAD + from * ENTRY + 1, from + MOST_LEFT
      repeat
        if at + ENTRY > #piece + 1 then
          piece, at = redis.pcall('GETRANGE', key, HEAD + from * ENTRY, HEAD + (from + FIRST_PIECE) * ENTRY - 1), 1
        end
        if #piece < ENTRY or from == most then
          isKnown = false
          break
        end
        local offset, some = unpackFrom('<I5I4', piece, at)
        oldest = offset
        if (base + offset + 1) * resolution + window > now then
          break
        end
        used, from, at = used - some, from + 1, at + ENTRY
      until from == to
    end

    if not isKnown then
      break
    elseif isEmpty then
      used = cost
      if used <= permits then
        expires = min(max(expires, leaves + floor(window / 16)), leaves + 4 * window)
        written = redis.pcall('SET', key,
          pack('<I3I2I6I6I4I2I2I5I6I2I6', A_LOG, life, used, slot, used, 0, 0, 0, 0, 0, expires), 'PX', expires - now)
      end
    elseif used + cost <= permits then
      used = used + cost
      if newest == slot then
        written = redis.pcall('SETRANGE', key, FRONT,
          pack('<I6I6I4I2I2I5', used, slot, count + cost, from, to, from < to and oldest or 0))
      elseif from < to and to < room and to - from + 1 < MOST_ENTRIES and (leaves <= expires or not isShort) then
        local front, entry = pack('<I6I6I4I2I2I5', used, slot, cost, from, to + 1, oldest),
          pack('<I5I4', newest - base, count)
        if isShort then
          written = redis.pcall('SETRANGE', key, FRONT,
            front .. string.sub(bytes, BEHIND_FRONT, HEAD + to * ENTRY) .. entry)
        else
          written = redis.pcall('SETRANGE', key, HEAD + to * ENTRY, entry)
          if leaves > expires and type(written) ~= 'table' then
            expires = leaves + floor(window / 16)
            written = redis.pcall('PEXPIRE', key, expires - now)
          end
          if type(written) ~= 'table' then
            written = redis.pcall('SETRANGE', key, FRONT, front .. pack('<I6I2I6', base, room, expires))
          end
        end
      elseif to - from + 1 < MOST_ENTRIES then
        if not isShort then
          bytes = redis.pcall('GETRANGE', key, '0', HEAD + to * ENTRY - 1)
        end
        if #bytes >= HEAD + to * ENTRY then
          if from == to then
            base, oldest = newest, 0
          end
          local number = to - from + 1
          room = number + min(3 + floor(number / 2), MOST_SPARE)
          expires = max(expires, leaves + floor(window / 16))
          written = redis.pcall('SET', key,
            pack('<I3I2I6I6I4I2I2I5I6I2I6', A_LOG, life, used, slot, cost, 0, number, oldest, base, room, expires)
              .. string.sub(bytes, HEAD + from * ENTRY + 1, HEAD + to * ENTRY) .. pack('<I5I4', newest - base, count)
              .. string.rep('\0', (room - number) * ENTRY), 'PX', expires - now)
        end
      end
    end
    first, second, third = used, now, leaves

  elseif kind == BUCKET then
    local level, at, expires, older, age = 0, 0, 0, 0, 0
    if length == LONG_BUCKET then
      format, life, level, at, expires, older, age = unpackFrom('<I3I2I7I6I6I7I5', bytes)
    elseif length == SHORT_BUCKET then
      format, life, level, at, expires = unpackFrom('<I3I2I7I6I6', bytes)
    elseif isEmpty then
      format = A_BUCKET
    end
    if format ~= A_BUCKET or at > now or older > level then
      break
    end
    local olderAt = at - age
    if at < now then
      level = max(0, level - (now - at) * permits)
      older = min(older, level)
      if 2 * older <= level then
        older, olderAt = level, at
      end
    end
    level = level + cost * window
    if level <= resolution * window then
      local left = level / permits
      first = level
      local livesOn = now + left <= expires
      if livesOn and length == LONG_BUCKET then
        written = redis.pcall('SETRANGE', key, FRONT, pack('<I7I6I6I7I5', level, now, expires, older, now - olderAt))
      elseif older == 0 and (livesOn or left >= SOON) then
        expires = max(expires, now + math.ceil(left))
        written = redis.pcall('SET', key, pack('<I3I2I7I6I6', A_BUCKET, life, level, now, expires), 'PX', expires - now)
      else
        local more = older == 0 and SOON or resolution * window / permits / 2
        expires = max(expires, floor(now + left + more) + 1)
        written = redis.pcall('SET', key,
          pack('<I3I2I7I6I6I7I5', A_BUCKET, life, level, now, expires, older, now - olderAt), 'PX', expires - now)
      end
    end

  else
    local opening = kind == ALIGNED_COUNTER and now - now % window or now
    local previous, current, start, isInPlace = 0, 0, opening, false
    if length == COUNTER_LENGTH then
      format, life, previous, current, start = unpackFrom('<I3I2I7I7I6', bytes)
      isInPlace = now - start < window
      if not isInPlace then
        previous, current, start = current, 0, start + window
      end
      if now - start >= window or previous + current == 0 then
        previous, current, start, isInPlace = 0, 0, opening, false
      end
    elseif isEmpty then
      format = A_COUNTER
    end
    if format ~= A_COUNTER or start > opening then
      break
    end
    local free = permits - current - cost
    local fits = free >= previous
    if free >= 0 and not fits then
      local taken, held = previous * (window - (now - start)), free * window -- as counterFits does
      fits = taken < held or (taken == held and taken < EXACT)
    end
    if fits then
      current = current + cost
      first, second, third = previous, current, start
      if isInPlace then
        written = redis.pcall('SETRANGE', key, FRONT, pack('<I7I7', previous, current))
      else
        written = redis.pcall('SET', key, pack('<I3I2I7I7I6', A_COUNTER, life, previous, current, start), 'PX',
          start + 2 * window - now)
      end
    end
  end

  if not written or (type(written) == 'table' and written.err) then
    break
  end
  rest = rest + GROUP
  if decided == 0 and rest > #argument then
    return pack(GRANT_OF_ONE, micros, times, life * 256, first, second, third)
  end
  decided, usages = decided + 1, usages or {}
  usages[decided] = pack(GRANT, times, life * 256, first, second, third)
end

local decidedHere = pack('<I7', micros) .. (usages and table.concat(usages) or '')
if rest > #argument then
  return decidedHere
end
