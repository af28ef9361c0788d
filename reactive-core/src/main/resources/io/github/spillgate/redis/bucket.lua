-- bucket.lua: reads, changes and writes a token bucket. BucketCount.java explains the marks.
--
-- A level is what has been taken and has not returned yet, in units that need no rounding: a permit has as many units
-- as a window has milliseconds, and each millisecond returns as many units as a window has permits. A limit's capacity
-- is its burst in units. All of these are below 2^53, so doubles hold them exactly.

local BUCKET_LENGTH = 42

local function newBucket(key, limit)
  return {key = key, limit = limit, level = 0, mark = 0, markedAt = 0, older = 0, olderAt = 0, at = 0,
    storedLevel = 0, storedMark = 0, storedOlder = 0}
end

-- Returns the bucket at the present time, and as it is stored, of another time; or nil if the value is foreign.
local function readBucket(key, limit)
  local bytes = read(key)
  if bytes == '' then
    return newBucket(key, limit)
  end
  if not bytes or #bytes ~= BUCKET_LENGTH then
    return nil
  end
  local written, level, at, mark, markedAt, older, olderAt = unpackFrom('<I3I7I6I7I6I7I6', bytes)
  if written ~= A_BUCKET or older > mark or mark > level then
    return nil
  end
  if at > now and level == 0 then
    -- It was kept although it is empty, and the clock was set back.
    return newBucket(key, limit)
  elseif at > now then
    -- The clock was set back: everything counts as taken now, and cannot be refunded.
    return {key = key, limit = limit, level = level, mark = 0, markedAt = now, older = 0, olderAt = now, at = now,
      storedLevel = level, storedMark = 0, storedOlder = 0, mended = true}
  end
  local stored = level
  -- The product may be rounded if it is above all levels. That does not change the result.
  level = max(0, level - (now - at) * limit.permits)
  return {key = key, limit = limit, level = level, mark = min(mark, level), markedAt = markedAt,
    older = min(older, level), olderAt = olderAt, at = at,
    storedLevel = stored, storedMark = mark, storedOlder = older}
end

-- Adds units that were taken at this time. Several takes in one millisecond are the same as one.
local function addToBucket(bucket, units, time)
  if bucket.markedAt ~= time and 2 * bucket.older <= bucket.mark then
    bucket.older, bucket.olderAt = bucket.mark, bucket.markedAt
  end
  bucket.level = bucket.level + units
  bucket.mark, bucket.markedAt = bucket.level, time
end

-- Writes the bucket, to live for at least so many milliseconds. An empty one is deleted if that is 0.
local function writeBucket(bucket, life)
  local level = bucket.level
  if level == 0 and life == 0 then
    call('DEL', bucket.key)
  else
    call('SET', bucket.key, pack('<I3I7I6I7I6I7I6', A_BUCKET, level, now, bucket.mark, bucket.markedAt, bucket.older,
      bucket.olderAt), 'PX', max(life, math.ceil(level / bucket.limit.permits)))
  end
end
