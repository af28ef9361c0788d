-- codec.lua: reads limits and writes usages, in the format of wire.lua. A script that never gets limits of one kind has
-- no functions of that kind.

-- Returns the limits, the position behind them, and whether any of them counts denied requests.
local function readLimits()
  local limits, number, at = {}, unpackFrom('<I2', argument)
  local isAnyCountingDenied = false
  for l = 1, number do
    local kind, permits, window, resolution, option
    kind, permits, window, resolution, option, at = unpackFrom('<I1I7I6I6I1', argument, at)
    limits[l] = {isLog = kind == LOG, isBucket = kind == BUCKET, isConcurrent = kind == CONCURRENT,
      isAligned = kind == ALIGNED_COUNTER, permits = permits, window = window, resolution = resolution,
      capacity = resolution * window, isCountingDenied = option == 1}
    isAnyCountingDenied = isAnyCountingDenied or option == 1
  end
  return limits, at, isAnyCountingDenied
end

-- Returns the usage of a count, or one without figures if there is no count.
local function usageOf(count, granted, status, fitsAt)
  if not count then
    return pack(USAGE, granted, status, 0, 0, 0, 0)
  elseif count.limit.isLog then
    return pack(USAGE, granted, status, count.life, count.used, fitsAt,
      count.used > 0 and (count.newest + 1) * count.limit.resolution + count.limit.window or now)
  elseif count.limit.isBucket then
    return pack(USAGE, granted, status, count.life, count.at == now and count.level or levelAt(count, now), 0, 0)
  elseif count.limit.isConcurrent then
    return pack(USAGE, granted, status, 0, count.used, count.used > 0 and count.last or now, 0)
  end
  return pack(USAGE, granted, status, count.life, count.previous, count.current, count.start)
end

-- Returns the count at the present time, or nil if the value is foreign.
local function readCount(key, limit, checksLength)
  if limit.isLog then
    return readLog(key, limit, checksLength)
  elseif limit.isBucket then
    return readBucket(key, limit)
  elseif limit.isConcurrent then
    return readHolds(key, limit)
  end
  return readCounter(key, limit)
end

-- Notes that a count has changed. One without a value gets a life.
local function change(count)
  count.mustWrite = true
  if count.life == 0 then
    count.life = birth
  end
end

local function writeCount(count)
  if count.limit.isLog then
    writeLog(count)
  elseif count.limit.isBucket then
    writeBucket(count, 0)
  elseif count.limit.isConcurrent then
    writeHolds(count)
  else
    writeCounter(count)
  end
end

-- Returns for how long permits count at most, in milliseconds.
local function reachOf(limit)
  if limit.isLog then
    return limit.window + limit.resolution
  elseif limit.isBucket then
    return math.ceil(limit.capacity / limit.permits)
  end
  return 2 * limit.window
end
