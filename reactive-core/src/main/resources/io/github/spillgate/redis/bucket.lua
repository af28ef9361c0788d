-- bucket.lua: reads, changes and writes a token bucket. BucketCount.java explains the marks.
--
-- A level is what has been taken and has not returned yet, in units that need no rounding: a permit has as many units
-- as a window has milliseconds, and each millisecond returns as many units as a window has permits. A limit's capacity
-- is its burst in units. All of these are below 2^53, so doubles hold them exactly.

-- Returns the level at a time that is not before that of the bucket.
local function levelAt(bucket, time)
  -- The product may be rounded if it is above all levels. That does not change the result.
  local level = bucket.level - (time - bucket.at) * bucket.limit.permits
  return level > 0 and level or 0
end

-- Returns the bucket as it was after the last take, or nil if the value is foreign.
local function readBucket(key, limit)
  local bytes = read(key)
  if bytes == '' then
    return {key = key, limit = limit, life = 0, level = 0, at = 0, older = 0, olderAt = 0, expires = 0}
  end
  local length = bytes and #bytes
  local written, life, level, at, expires
  local older, age, isLong = 0, 0, length == LONG_BUCKET
  if isLong then
    written, life, level, at, expires, older, age = unpackFrom('<I3I2I7I6I6I7I5', bytes)
  elseif length == SHORT_BUCKET then
    written, life, level, at, expires = unpackFrom('<I3I2I7I6I6', bytes)
  end
  if (written ~= A_BUCKET and written ~= A_BUCKET_SET_BACK) or older > level then
    return nil
  end
  if level == 0 then
    return {key = key, limit = limit, life = life, level = 0, at = 0, older = 0, olderAt = 0, expires = expires,
      isLong = isLong}
  end
  local isLeased = at >= LEASED
  if isLeased then
    at = at - LEASED
  end
  if at > now then
    -- The clock was set back: everything counts as taken now, and cannot be refunded.
    return {key = key, limit = limit, life = life, level = level, at = now, older = 0, olderAt = now,
      expires = expires, isLong = isLong, isSetBack = true, mustWrite = true}
  end
  local bucket = {key = key, limit = limit, life = life, level = level, at = at, older = older, olderAt = at - age,
    expires = expires, isLong = isLong}
  if written == A_BUCKET_SET_BACK then
    bucket.isSetBack = true
  end
  if isLeased then
    bucket.isLeased = true
  end
  return bucket
end

-- Adds units that are taken at a time that is not before that of the bucket. Several takes in one millisecond are the
-- same as one.
local function addToBucket(bucket, units, time)
  local level, at = bucket.level, bucket.at
  if at ~= time then
    level = level - (time - at) * bucket.limit.permits -- as levelAt does
    if level <= 0 then
      level = 0
      bucket.isLeased = nil
    end
    if bucket.older > level then
      bucket.older = level
    end
    local mark = bucket.isSetBack and 0 or level
    if 2 * bucket.older <= mark then
      bucket.older, bucket.olderAt = mark, at
    end
    bucket.at = time
  end
  bucket.level = level + units
  if bucket.isSetBack then
    bucket.isSetBack = nil
  end
end

-- Leases permits, up to this number and one part of those that are left; returns how many. A level that would be lower
-- is first raised to what returns in a lease time: so at its end, the level is at least as high as if all of them had
-- been taken then.
local function leaseFromBucket(bucket, parts, most)
  local limit = bucket.limit
  local returned = limit.permits * leaseTimeOf(limit)
  local level = max(levelAt(bucket, now), returned)
  local leased = min(most, floor(floor(max(0, limit.capacity - level) / limit.window) / parts))
  if leased > 0 then
    local atEnd = level - returned
    local older, mark = min(bucket.older, atEnd), bucket.isSetBack and 0 or atEnd
    if bucket.at ~= now and 2 * older <= mark then
      older, bucket.olderAt = mark, bucket.at
    end
    bucket.older, bucket.level, bucket.at = older, level + leased * limit.window, now
    bucket.isSetBack, bucket.isLeased = nil, true
  end
  return leased
end

-- Writes the bucket, to live for at least so many milliseconds. One that is not empty when it is taken from, or is
-- empty soon, lives longer than necessary: most takes do not write its expiry.
local function writeBucket(bucket, least)
  local limit = bucket.limit
  local left = max(least, (bucket.at == now and bucket.level or levelAt(bucket, now)) / limit.permits)
  local written = bucket.isSetBack and A_BUCKET_SET_BACK or A_BUCKET
  local at = bucket.isLeased and bucket.at + LEASED or bucket.at
  local age = bucket.at - bucket.olderAt -- too large for its five bytes after 34 years; then the mark seems newer
  -- The time may be rounded by less than a millisecond. Redis keeps a key for all of the millisecond in which it ends.
  local livesOn = now + left <= bucket.expires
  if livesOn and bucket.isLong then
    call('SETRANGE', bucket.key, '0',
      pack('<I3I2I7I6I6I7I5', written, bucket.life, bucket.level, at, bucket.expires, bucket.older, age))
  elseif bucket.older == 0 and (livesOn or left >= SOON) then
    local expires = max(bucket.expires, now + math.ceil(left))
    call('SET', bucket.key, pack('<I3I2I7I6I6', written, bucket.life, bucket.level, at, expires), 'PX',
      max(1, expires - now))
  else
    local more = bucket.older == 0 and SOON or limit.capacity / limit.permits / 2
    local expires = max(bucket.expires, floor(now + left + more) + 1)
    local value = pack('<I3I2I7I6I6I7I5', written, bucket.life, bucket.level, at, expires, bucket.older, age)
    call('SET', bucket.key, value, 'PX', expires - now)
  end
end
