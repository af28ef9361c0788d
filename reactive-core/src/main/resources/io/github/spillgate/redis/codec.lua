-- codec.lua: reads limits and writes usages, in the format of wire.lua.

-- Returns the limits, the position behind them, and whether any of them counts denied requests.
local function readLimits()
  local limits, number, at = {}, unpackFrom('<I2', argument)
  local isAnyCountingDenied = false
  for l = 1, number do
    local kind, permits, window, resolution, denied
    kind, permits, window, resolution, denied, at = unpackFrom('<I1I7I6I6I1', argument, at)
    limits[l] = {isLog = kind == LOG, isAligned = kind == ALIGNED_COUNTER, permits = permits, window = window,
      resolution = resolution, isCountingDenied = denied == 1}
    isAnyCountingDenied = isAnyCountingDenied or denied == 1
  end
  return limits, at, isAnyCountingDenied
end

-- Returns the usage of a count, or one without figures if there is no count.
local function usageOf(count, granted, status, fitsAt)
  if not count then
    return pack(USAGE, granted, status, 0, 0, 0)
  elseif count.limit.isLog then
    return pack(USAGE, granted, status, count.used, fitsAt,
      count.used > 0 and (count.newest + 1) * count.limit.resolution + count.limit.window or now)
  end
  return pack(USAGE, granted, status, count.previous, count.current, count.start)
end
