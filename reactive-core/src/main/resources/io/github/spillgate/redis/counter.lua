-- counter.lua: counters. CounterState.java and CounterCount.java do the same. The figures of a usage are the permits of
-- the previous and of this window, and its start. The expiry of a counter follows its window.

kinds[COUNTER] = function()

  -- Returns the start of a window that opens at this time.
  local function openingAt(limit, time)
    return limit.number == ALIGNED_COUNTER and time - time % limit.window or time
  end

  -- Advances the counter to the window at this time.
  local function advance(counter, time)
    local window, passed = counter.limit.window, time - counter.start
    if passed >= 2 * window or (passed >= window and counter.current == 0) then
      counter.previous, counter.current, counter.start = 0, 0, openingAt(counter.limit, time)
    elseif passed >= window then
      counter.previous, counter.current, counter.start = counter.current, 0, counter.start + window
    end
  end

  local function read(key, limit)
    local opening = openingAt(limit, now)
    local bytes = firstBytes(key)
    if bytes == '' then
      return {key = key, limit = limit, life = 0, previous = 0, current = 0, start = opening}
    end
    if not bytes or #bytes ~= COUNTER_LENGTH then
      return nil
    end
    local written, life, previous, current, start = unpackFrom('<I3I2I7I7I6', bytes)
    if written ~= A_COUNTER then
      return nil
    end
    local counter = {key = key, limit = limit, life = life, previous = previous, current = current, start = start}
    if start > opening then
      -- The clock was set back: all permits count as taken now, those of the previous window up to one full window.
      counter.current = max(current, min(previous + current, limit.permits))
      counter.previous, counter.start, counter.mustWrite = 0, opening, true
      return counter
    end
    advance(counter, now)
    if counter.previous == 0 and counter.current == 0 then
      counter.start = opening
    else
      counter.isInPlace = counter.start == start
    end
    return counter
  end

  -- Writes the counter. A reconciliation may open its window earlier, and then has the expiry of the stored value.
  local function write(counter)
    if counter.isInPlace then
      call('SETRANGE', counter.key, FRONT, pack('<I7I7', counter.previous, counter.current))
    else
      call('SET', counter.key,
        pack('<I3I2I7I7I6', A_COUNTER, counter.life, counter.previous, counter.current, counter.start), 'PX',
        max(counter.start + 2 * counter.limit.window, counter.expires or 0) - now)
    end
  end

  local function usage(counter)
    return counter.previous, counter.current, counter.start
  end

  -- Returns whether previous × (1 − elapsed/window) + current + cost ≤ permits, without a division. Products of
  -- integers are exact below EXACT, and rounding never reverses an order. A cost that fits only by rounding is denied.
  local function fits(counter, permits, cost)
    local free = permits - counter.current - cost
    if free < 0 or free >= counter.previous then
      return free >= 0
    end
    local window = counter.limit.window
    local taken = counter.previous * (window - (now - counter.start))
    local held = free * window
    return taken < held or (taken == held and taken < EXACT)
  end

  local function timesThatFit(counter, cost, times)
    local permits = counter.limit.permits
    if not fits(counter, permits, cost) then
      return 0
    end
    local some, tooMany = 1, times + 1
    while tooMany - some > 1 do
      local middle = floor((some + tooMany) / 2)
      if fits(counter, permits, middle * cost) then
        some = middle
      else
        tooMany = middle
      end
    end
    return some
  end

  local function take(counter, cost)
    counter.current = counter.current + cost
  end

  -- A counter gets one full window.
  local function recordDenied(counter, cost)
    counter.current = max(counter.current, min(counter.current + cost, counter.limit.permits))
    return true
  end

  local function takeBeyond(counter, cost, most)
    local window = counter.limit.window
    local room = most - counter.current - math.ceil(counter.previous * (window - (now - counter.start)) / window)
    while room > 0 and not fits(counter, most, room) do
      room = room - 1
    end
    take(counter, max(0, min(cost, room)))
    return room > 0
  end

  local function refund(counter, permits, takenAt)
    local previous, current = counter.previous, counter.current
    if not takenAt then
      local older = min(previous, permits)
      counter.previous = previous - older
      counter.current = max(0, current - (permits - older))
    elseif takenAt >= counter.start then
      counter.current = max(0, current - permits)
    elseif takenAt >= counter.start - counter.limit.window then
      counter.previous = max(0, previous - permits)
    end
    return counter.previous ~= previous or counter.current ~= current
  end

  local function reach(limit)
    return 2 * limit.window
  end

  -- Sets the windows of the counter. They may begin earlier, but it expires as late as one that begins now, and so not
  -- before the stored one.
  local function set(counter, previous, current, start)
    counter.previous, counter.current, counter.start = min(MOST_EXACT, previous), min(MOST_EXACT, current), start
    counter.expires = counter.life > 0 and openingAt(counter.limit, now) + reach(counter.limit) or 0
  end

  -- Returns the windows that an empty counter has now if the grants were taken at their times.
  local function replayed(limit, grants)
    local start = openingAt(limit, max(0, now - grants[1].from))
    local windows = {limit = limit, previous = 0, current = 0, start = start}
    for _, some in ipairs(grants) do
      advance(windows, max(0, now - some.to))
      windows.current = min(MOST_EXACT, windows.current + some.permits)
    end
    advance(windows, now)
    return windows
  end

  local function charge(counter, grants)
    local previous, current, start = counter.previous, counter.current, counter.start
    if previous == 0 and (current == 0 or max(0, now - grants[1].from) < start) then
      -- Taken here, the grants would have opened the windows. In an earlier window than that of the other permits, they
      -- would begin to fade at once.
      local windows = replayed(counter.limit, grants)
      previous, current, start = windows.previous, min(MOST_EXACT, windows.current + current), windows.start
    else
      for _, some in ipairs(grants) do
        local time = now - some.to
        if time >= start then
          current = min(MOST_EXACT, current + some.permits)
        elseif time >= start - counter.limit.window then
          previous = min(MOST_EXACT, previous + some.permits)
        end
      end
    end
    if previous == counter.previous and current == counter.current then
      return nil
    end
    counter.isInPlace = counter.isInPlace and start == counter.start
    set(counter, previous, current, start)
    return reach(counter.limit)
  end

  -- Moves to the next window, if that of other windows of the same life is nearer to it: two messages are in flight for
  -- different times.
  local function follow(windows, other)
    if other.start - windows.start > windows.limit.window / 2 then
      windows.previous, windows.current = windows.current, 0
    end
  end

  -- Each window gets as many restored permits as any instance knew there. The numbers are the start of the window, and
  -- the restored permits of the previous and of this window.
  local function restore(counter, grants, earlier)
    local limit, window = counter.limit, counter.limit.window
    local known = replayed(limit, grants)
    local has = {limit = limit, previous = 0, current = 0, start = known.start}
    if earlier then
      has.start, has.previous, has.current = min(openingAt(limit, now), earlier[1]), earlier[2], earlier[3]
      advance(has, now)
    end
    if has.previous == 0 and has.current == 0 then
      has.start = known.start
    end
    follow(has, known)
    follow(known, has)
    local previous, current = max(0, known.previous - has.previous), max(0, known.current - has.current)
    if previous == 0 and current == 0 then
      return nil
    end
    local hasPrevious, hasCurrent, start = has.previous + previous, has.current + current, known.start
    if math.abs(counter.start - start) >= window / 2 then
      -- Windows that begin at other times: what is left of the permits counts in this one.
      current = current + counter.current + math.ceil(counter.previous * (window - now + counter.start) / window)
    elseif counter.previous > 0 or counter.current > 0 then
      previous, current, start = previous + counter.previous, current + counter.current, max(counter.start, start)
    end
    counter.isInPlace = nil
    set(counter, previous, current, start)
    return max(has.start, known.start), hasPrevious, hasCurrent
  end

  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = take,
    recordDenied = recordDenied, takeBeyond = takeBeyond, refund = refund, charge = charge, restore = restore,
    reach = reach}
end

kinds[ALIGNED_COUNTER] = kinds[COUNTER]
