-- one-count.lua: decides equal requests on a single count if all are granted and little is written. That is the most
-- frequent command if few decisions are in flight, or if many are on one key. decide.lua describes the argument and the
-- reply, and decides everything else. This is what the functions of log.lua, counter.lua and bucket.lua do, in one
-- piece, without their tables, and before any function is created: creating them takes longer than such a decision.
--
-- The last write charges. If a write fails, nothing has been charged.

local LENGTH_OF_ONE = 47

local one -- the limit of the only count with the requests, if it is a log that decide.lua may grant in the same way

if #argument == LENGTH_OF_ONE then
  local _, kind, permits, window, resolution, denied, mode, times, deadline, _, _, _, cost =
    unpackFrom('<I2I1I7I6I6I1I1I4I7I1I2I2I7', argument)
  if mode == 1 and denied ~= 1 and cost > 0 and not isLate(deadline) then
    local key = KEYS[1]
    local bytes = redis.pcall('GETRANGE', key, '0', BEHIND_HEAD)
    local length = #bytes -- 0 if it is an error
    local isNew = bytes == ''
    local written, reply
    cost = cost * times -- rounded only if it is above all permits

    if kind == LOG then
      one = {isLog = true, permits = permits, window = window, resolution = resolution, cost = cost, times = times}
      local slot = floor(now / resolution)
      local leaves = (slot + 1) * resolution + window
      if isNew and cost <= permits then
        local expires = leaves + floor(window / 16)
        reply = pack(REPLY_OF_ONE, micros, times, 0, cost, now, leaves)
        written = redis.pcall('SET', key,
          'sgL' .. pack('<I6I6I4I2I2I5I6I2I6', cost, slot, cost, 0, 0, 0, 0, 0, expires), 'PX', expires - now)
      elseif length >= HEAD then
        local format, used, newest, count, first, last, oldest, base, room, expires =
          unpackFrom('<I3I6I6I4I2I2I5I6I2I6', bytes)
        local gone = (newest + 1) * resolution + window
        local isValid = format == A_LOG and first <= last and last <= room and (room == 0) == (length == HEAD)
          and count <= used and gone <= expires and expires <= gone + window
        local isCurrent = newest <= slot and now < gone
          and (first == last or now < (base + oldest + 1) * resolution + window)
        local isInPlace = newest == slot
          or (first < last and last < room and last - first + 1 < MOST_ENTRIES and leaves <= expires)
        if isValid and isCurrent and isInPlace and used + cost <= permits then
          used = used + cost
          if newest < slot then
            written = redis.pcall('SETRANGE', key, HEAD + last * ENTRY, pack('<I5I4', newest - base, count))
            last, newest, count = last + 1, slot, 0
          end
          if type(written) ~= 'table' then
            reply = pack(REPLY_OF_ONE, micros, times, 0, used, now, leaves)
            written = redis.pcall('SETRANGE', key, FRONT,
              pack('<I6I6I4I2I2I5', used, newest, count + cost, first, last, oldest))
          end
        end
      end

    elseif kind == BUCKET then
      local format, level, at, older, age, expires = A_BUCKET, 0, 0, 0, 0, 0
      if length == LONG_BUCKET then
        format, level, at, older, age, expires = unpackFrom('<I3I7I6I7I5I4', bytes)
      elseif length == SHORT_BUCKET then
        format, level, at = unpackFrom('<I3I7I6', bytes)
      elseif not isNew then
        format = 0
      end
      if format == A_BUCKET and at <= now and older <= level then
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
          reply = pack(REPLY_OF_ONE, micros, times, 0, level, 0, 0)
          if now + left <= expires * 1000 then
            written = redis.pcall('SETRANGE', key, FRONT, pack('<I7I6I7I5', level, now, older, now - olderAt))
          elseif older == 0 then
            written = redis.pcall('SET', key, pack('<I3I7I6', A_BUCKET, level, now), 'PX', math.ceil(left))
          else
            expires = floor((now + left + resolution * window / permits / 2) / 1000) + 1
            written = redis.pcall('SET', key,
              pack('<I3I7I6I7I5I4', A_BUCKET, level, now, older, now - olderAt, expires), 'PX', expires * 1000 - now)
          end
        end
      end

    elseif isNew or length == COUNTER then
      local opening = kind == ALIGNED_COUNTER and now - now % window or now
      local format, previous, current, start = A_COUNTER, 0, 0, opening
      if not isNew then
        format, previous, current, start = unpackFrom('<I3I7I7I6', bytes)
      end
      local free = permits - current - cost
      local fits = free >= previous
      if free >= 0 and not fits then
        local taken, held = previous * (window - (now - start)), free * window -- as counterFits does
        fits = taken < held or (taken == held and taken < EXACT)
      end
      local isCurrent = start <= opening and now < start + window and (isNew or previous + current > 0)
      if format == A_COUNTER and isCurrent and fits then
        current = current + cost
        reply = pack(REPLY_OF_ONE, micros, times, 0, previous, current, start)
        if isNew then
          written = redis.pcall('SET', key, pack('<I3I7I7I6', A_COUNTER, 0, current, start), 'PX',
            start + 2 * window - now)
        else
          written = redis.pcall('SETRANGE', key, FRONT, pack('<I7I7', previous, current))
        end
      end
    end

    if reply and (type(written) ~= 'table' or not written.err) then
      return reply
    end
  end
end
