-- counter.lua: reads, tests and writes a counter.

-- Returns the counter in the current window, or nil if the value is foreign.
local function readCounter(key, limit)
  local window = limit.window
  local opening = limit.isAligned and now - now % window or now
  local bytes = read(key)
  if bytes == '' then
    return {key = key, limit = limit, life = 0, previous = 0, current = 0, start = opening}
  end
  if not bytes or #bytes ~= COUNTER then
    return nil
  end
  local written, life, previous, current, start = unpackFrom('<I3I2I7I7I6', bytes)
  if written ~= A_COUNTER then
    return nil
  end
  if start > opening then
    -- The clock was set back: all permits count as taken now, those of the previous window up to one full window.
    return {key = key, limit = limit, life = life, previous = 0,
      current = max(current, min(previous + current, limit.permits)), start = opening, mustWrite = true}
  end
  local stored = start
  if now - start >= window then
    previous, current, start = current, 0, start + window
  end
  if now - start >= window or (previous == 0 and current == 0) then
    return {key = key, limit = limit, life = life, previous = 0, current = 0, start = opening}
  end
  return {key = key, limit = limit, life = life, previous = previous, current = current, start = start,
    isInPlace = start == stored}
end

-- Writes the counter. A reconciliation may open its window earlier, and then has the expiry of the stored value.
local function writeCounter(counter)
  if counter.isInPlace then
    call('SETRANGE', counter.key, FRONT, pack('<I7I7', counter.previous, counter.current))
  else
    call('SET', counter.key,
      pack('<I3I2I7I7I6', A_COUNTER, counter.life, counter.previous, counter.current, counter.start), 'PX',
      max(counter.start + 2 * counter.limit.window, counter.expires or 0) - now)
  end
end

-- Returns whether previous × (1 − elapsed/window) + current + cost ≤ permits, without a division. Products of
-- integers are exact below EXACT, and rounding never reverses an order. A cost that fits only by rounding is denied.
local function counterFits(counter, permits, cost)
  local free = permits - counter.current - cost
  if free < 0 or free >= counter.previous then
    return free >= 0
  end
  local window = counter.limit.window
  local taken = counter.previous * (window - (now - counter.start))
  local held = free * window
  return taken < held or (taken == held and taken < EXACT)
end
