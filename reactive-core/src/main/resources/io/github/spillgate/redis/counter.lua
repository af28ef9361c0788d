-- counter.lua: how a counter is read, tested and written.

local EXACT = 9007199254740992 -- what is less than this has not been rounded

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

-- previous × (1 − elapsed/window) + current + cost ≤ permits, without a division: the products of integers are exact
-- below EXACT, and rounding never turns an order around. What is equal only by rounding does not fit.
local function counterFits(counter, permits, cost)
  local free = permits - counter.current - cost
  if free < 0 or free >= counter.previous then
    return free >= 0
  end
  local taken = counter.previous * (counter.window - (now - counter.start))
  local held = free * counter.window
  return taken < held or (taken == held and taken < EXACT)
end
