-- refunds.lua: removes permits from a count. BucketCount.java explains what a bucket may return.

-- Returns the number of the entry of this slot behind the head, if there is one.
local function find(log, slot)
  local low, high = log.first, log.last - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    if entry(log, middle) < slot then
      low = middle + 1
    else
      high = middle - 1
    end
  end
  if low < log.last and entry(log, low) == slot then
    return low
  end
end

-- Removes an entry and moves the later ones up.
local function removeEntry(log, n)
  local at = HEAD + n * ENTRY
  if log.whole then
    log.bytes = string.sub(log.bytes, 1, at) .. string.sub(log.bytes, at + ENTRY + 1)
  else
    call('SETRANGE', log.key, at, call('GETRANGE', log.key, at + ENTRY, HEAD + log.last * ENTRY - 1))
    log.bytes, log.from, log.piece = '', 0, nil
  end
  log.last, log.oldest = log.last - 1, nil
end

-- Each of the following returns whether the count has changed. They refund permits that were taken at a time in
-- milliseconds; without one, the oldest.

local function refundLog(log, permits, takenAt)
  if not takenAt then
    trimLog(log, permits)
    return true
  end
  local slot = floor(takenAt / log.limit.resolution)
  local n = slot < log.newest and find(log, slot)
  if n then
    local _, count = entry(log, n)
    permits = min(permits, count)
    if permits < count then
      putEntry(log, n, slot, count - permits)
    else
      removeEntry(log, n)
    end
  elseif slot == log.newest then
    permits = min(permits, log.count)
    log.count = log.count - permits
  else
    return false
  end
  log.used = log.used - permits
  if log.count == 0 and log.used > 0 then
    log.newest, log.count = entry(log, log.last - 1)
    log.last = log.last - 1
  end
  return true
end

local function refundCounter(counter, permits, takenAt)
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

local function refundBucket(bucket, permits, takenAt)
  local level = levelAt(bucket, now)
  local older = min(bucket.older, level)
  local units, isSinceMark = min(permits * bucket.limit.window, level), false
  if takenAt then
    -- Leased permits count as taken at the end of their lease, after a mark that is not older than a lease time.
    local lease = bucket.isLeased and leaseTimeOf(bucket.limit) or 0
    if takenAt > now + lease then
      return false
    end
    -- What cannot have returned before a mark began, and at most that mark.
    local function left(mark, markedAt)
      return min(mark, permits * bucket.limit.window - max(0, markedAt + lease - takenAt) * bucket.limit.permits)
    end
    units = max(left(bucket.isSetBack and 0 or level, bucket.at), left(older, bucket.olderAt))
    isSinceMark = takenAt >= bucket.at + lease
  end
  if units <= 0 then
    return false
  end
  bucket.level = units < level and bucket.level - units or 0
  bucket.isLeased = bucket.level > 0 and bucket.isLeased or nil
  bucket.older = isSinceMark and min(older, level - units) or max(0, older - units)
  return true
end

-- Refunds permits of a count of any kind but holds.
local function refundCount(count, permits, takenAt)
  if count.limit.isLog then
    return count.used > 0 and refundLog(count, permits, takenAt)
  elseif count.limit.isBucket then
    return refundBucket(count, permits, takenAt)
  end
  return refundCounter(count, permits, takenAt)
end
