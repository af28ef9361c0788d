-- bucket.lua: token buckets. BucketState.java and BucketCount.java do the same, and explain the marks. The figures of a
-- usage are the level, and zeros.
--
-- A level is what has been taken and has not returned yet, in units that need no rounding: a permit has as many units
-- as a window has milliseconds, and each millisecond returns as many units as a window has permits. A limit's capacity
-- is its burst in units. All of these are below 2^53, so doubles hold them exactly.
--
-- The level of a bucket, after the last take at the time 'at', is what was taken and has not returned. Since then the
-- level was at least what is left of it, which bounds what a refund may return; unless the clock was set back, in which
-- case the value begins with 'sgb'. Since 'age' milliseconds before 'at' the level was at least 'older'. A bucket
-- expires at 'expires', when all has returned, or later: so most takes change it in place. Only one that was empty
-- before, and is not empty soon, expires then, and has no 'older'. If permits have been leased since it was empty, 'at'
-- is higher by 2^47. The fast path takes that for a time in the future.

kinds[BUCKET] = function()

  -- Returns the level at a time that is not before that of the bucket.
  local function levelAt(bucket, time)
    -- The product may be rounded if it is above all levels. That does not change the result.
    local level = bucket.level - (time - bucket.at) * bucket.limit.permits
    return level > 0 and level or 0
  end

  -- Returns the bucket as it was after the last take.
  local function read(key, limit)
    local bytes = firstBytes(key)
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
    local bucket = {key = key, limit = limit, life = life, level = level, at = 0, older = 0, olderAt = 0,
      expires = expires, isLong = isLong}
    if level == 0 then
      return bucket
    end
    local isLeased = at >= LEASED
    if isLeased then
      at = at - LEASED
    end
    if at > now then
      -- The clock was set back: everything counts as taken now, and cannot be refunded.
      bucket.at, bucket.olderAt, bucket.isSetBack, bucket.mustWrite = now, now, true, true
      return bucket
    end
    bucket.at, bucket.older, bucket.olderAt = at, older, at - age
    if written == A_BUCKET_SET_BACK then
      bucket.isSetBack = true
    end
    if isLeased then
      bucket.isLeased = true
    end
    return bucket
  end

  -- Writes the bucket. One that is not empty when it is taken from, or is empty soon, lives longer than necessary: most
  -- takes do not write its expiry.
  local function write(bucket)
    local limit = bucket.limit
    local left = max(bucket.least or 0, levelAt(bucket, now) / limit.permits)
    local written = bucket.isSetBack and A_BUCKET_SET_BACK or A_BUCKET
    local at = bucket.isLeased and bucket.at + LEASED or bucket.at
    local age = bucket.at - bucket.olderAt -- too large for its five bytes after 34 years; then the mark seems newer
    -- The time may be rounded by less than a millisecond. Redis keeps a key for the whole millisecond in which it ends.
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

  local function usage(bucket)
    return levelAt(bucket, now), 0, 0
  end

  local function timesThatFit(bucket, cost, times)
    local limit = bucket.limit
    local free, units = limit.capacity - levelAt(bucket, now), cost * limit.window
    if free < units then
      return 0
    end
    return (times == 1 or cost == 0) and times or min(times, floor(free / units))
  end

  -- Adds units that are taken at a time that is not before that of the bucket. Several takes in one millisecond are the
  -- same as one.
  local function add(bucket, units, time)
    local level, at = bucket.level, bucket.at
    if at ~= time then
      level = levelAt(bucket, time)
      if level == 0 then
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

  local function take(bucket, cost)
    add(bucket, cost * bucket.limit.window, now)
  end

  -- A level that would be lower is first raised to what returns in a lease time: so at its end, the level is at least
  -- as high as if all leased permits had been taken then.
  local function lease(bucket, parts, most)
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

  local function takeBeyond(bucket, cost, most)
    local window = bucket.limit.window
    local units = min(cost * window, most * window - levelAt(bucket, now))
    if units > 0 then
      add(bucket, units, now)
    end
    return units > 0
  end

  -- A bucket gets its burst.
  local function recordDenied(bucket, cost)
    return takeBeyond(bucket, cost, bucket.limit.resolution)
  end

  local function reach(limit)
    return math.ceil(limit.capacity / limit.permits)
  end

  local function refund(bucket, permits, takenAt, gone)
    local limit, level = bucket.limit, levelAt(bucket, now)
    local older = min(bucket.older, level)
    local units, isSinceMark = min(permits * limit.window, level), false
    if gone then
      -- Permits that were charged later than they were taken leave the bucket one reach after that, at the latest.
      takenAt = max(0, gone - reach(limit))
    end
    if takenAt then
      -- Leased permits count as taken at the end of their lease, after a mark that is not older than a lease time.
      local later = bucket.isLeased and leaseTimeOf(limit) or 0
      if takenAt > now + later then
        return false
      end
      -- What cannot have returned before a mark began, and at most that mark.
      local function left(mark, markedAt)
        return min(mark, permits * limit.window - max(0, markedAt + later - takenAt) * limit.permits)
      end
      units = max(left(bucket.isSetBack and 0 or level, bucket.at), left(older, bucket.olderAt))
      isSinceMark = takenAt >= bucket.at + later
    end
    if units <= 0 then
      return false
    end
    bucket.level = units < level and bucket.level - units or 0
    bucket.isLeased = bucket.level > 0 and bucket.isLeased or nil
    bucket.older = isSinceMark and min(older, level - units) or max(0, older - units)
    return true
  end

  -- A grant counts from its time on, as if it had been taken then. If the bucket has changed since, it is not known how
  -- long it was empty after the grant. Then the grant counts from that change on. Even an empty bucket is kept for a
  -- while: the time in which these grants have returned must not count once more for those of another instance.
  local function charge(bucket, grants)
    local lasts = reach(bucket.limit)
    for _, some in ipairs(grants) do
      if some.permits > 0 and some.to < lasts then
        local time = max(now - some.to, bucket.at)
        add(bucket, min(some.permits * bucket.limit.window, MOST_EXACT - levelAt(bucket, time)), time)
        bucket.least = lasts
      end
    end
    return bucket.least
  end

  -- Lost permits return only once they are restored: until then others in the bucket return in their place. The numbers
  -- are that of restored permits, and the time of the restoration in milliseconds.
  local function restore(bucket, grants, earlier)
    local limit, most, has = bucket.limit, 0, 0
    for _, some in ipairs(grants) do
      most = most + (some.to < reach(limit) and some.permits or 0)
    end
    if earlier then
      has = max(0, earlier[1] * limit.window - max(0, now - earlier[2]) * limit.permits)
    end
    local missing = min(most * limit.window - has, MOST_EXACT - levelAt(bucket, now))
    if missing > 0 then
      add(bucket, missing, now)
      return most, now, 0
    end
  end

  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = take, lease = lease,
    recordDenied = recordDenied, takeBeyond = takeBeyond, refund = refund, charge = charge, restore = restore,
    reach = reach}
end
