-- decide.lua: decides requests one after another, all at one instant. Each request is charged to all of its counts or
-- to none.
--
-- KEYS[i]   the key of the i-th count; no two are equal
-- ARGV[1]   the limits, see wire.lua, and then, to the end, groups of equal requests
--             mode:1        1 to charge, 0 to peek, 2 to lease: see below
--             times:4       the number of requests; 1 if a denied request counts, if nothing is charged, or with an id
--             deadline:7    the latest time of the decision, in microseconds on this clock; 0 if there is none
--             counts:1, then for each count
--               key:2       the position of its key
--               limit:2     the position of its limit
--               cost:7      0 to permits
--               id:16       of a concurrency limit, the id under which the permits are held
--
-- Reply: the time; for each group and each of its counts the usage after the group, see wire.lua; then, if a charge
-- could not be written, the reason as text.
--
-- A lease is on one log or bucket. It is granted up to the cost, and up to one part of the permits that are left;
-- 'times' is the number of parts. The permits are charged as if they were taken at the end of the lease time. The reply
-- has their number as 'granted'.
--
-- "The time when the cost fits" is computed for a denied request, and is now otherwise. A request that cannot be
-- decided changes nothing and does not prevent other decisions.

-- A torn log, or a failing write, is noticed while deciding. Then everything is decided again, with that knowledge. No
-- head has been written by then, so nothing has been charged, with one exception: a log of which Redis refused only the
-- later expiry. It is charged and reports UNWRITTEN, because it must not be charged twice.
local torn = {} -- by key
local isWritable, why = true, ''

local function note(failure)
  if type(failure) == 'table' and failure.torn and not torn[failure.torn] then
    torn[failure.torn] = true
  elseif isWritable then
    isWritable, why = false, type(failure) == 'table' and failure.err or failure
  else
    error(failure, 0)
  end
end

-- Returns when enough of the oldest hits will have expired. Counts from the oldest hit on or, if that is shorter, from
-- the newest hit back.
local function whenLogFits(log, permits, cost)
  local missing = log.used + cost - permits
  if missing <= 0 then
    return now
  end
  local leaving = log.newest
  if missing == 1 and log.first < log.last then
    leaving = oldestOf(log)
  elseif missing <= log.used / 2 then
    for n = log.first, log.last - 1 do
      local slot, count = entry(log, n)
      missing = missing - count
      if missing <= 0 then
        leaving = slot
        break
      end
    end
  else
    local before = log.used - log.count
    local n = log.last
    while before >= missing do
      n = n - 1
      local slot, count = entry(log, n)
      leaving = slot
      before = before - count
    end
  end
  return (leaving + 1) * log.limit.resolution + log.limit.window
end

-- Returns how many of these equal requests fit, one after another. If a number of them fits, each smaller number fits.
local function timesThatFit(count, limit, cost, times, id)
  local permits = limit.permits
  if limit.isLog then
    local free = permits - count.used
    if free < cost then
      return 0
    end
    return cost == 0 and times or min(times, floor(free / cost))
  elseif limit.isBucket then
    local level, units = count.level - (now - count.at) * permits, cost * limit.window -- as levelAt does
    local free = limit.capacity - (level > 0 and level or 0)
    if free < units then
      return 0
    end
    return (times == 1 or cost == 0) and times or min(times, floor(free / units))
  elseif limit.isConcurrent then
    return fitsHold(count, limit, id, cost) and times or 0
  end
  if not counterFits(count, permits, cost) then
    return 0
  end
  local some, tooMany = 1, times + 1
  while tooMany - some > 1 do
    local middle = floor((some + tooMany) / 2)
    if counterFits(count, permits, middle * cost) then
      some = middle
    else
      tooMany = middle
    end
  end
  return some
end

-- Charges leased permits; returns how many.
local function lease(count, parts, most)
  local limit, leased = count.limit, nil
  if limit.isBucket then
    leased = leaseFromBucket(count, parts, most)
  else
    leased = min(most, floor(max(0, limit.permits - count.used) / parts))
    if leased > 0 then
      addToLog(count, leased, lastSlot(limit))
    end
  end
  if leased > 0 then
    change(count)
  end
  return leased
end

-- A denied request that counts may change a log in place before another log turns out to be torn. So if there are such
-- requests, the length of every log is checked when it is read.
local limits, _, checksLength = readLimits()

-- Decides the rest of the groups in memory, and then writes the counts that have changed.
local function decideRest()
  local reply, r, counts = {decidedHere}, 1, {}
  local groupCounts, groupLimits, groupCosts, groupIds = {}, {}, {}, {}
  local at = rest
  while at <= #argument do
    local mode, times, deadline, number
    mode, times, deadline, number, at = unpackFrom('<I1I4I7I1', argument, at)
    local granted, status = times, isLate(deadline) and LATE or 0
    for i = 1, number do
      local k, l, cost
      k, l, cost, at = unpackFrom('<I2I2I7', argument, at)
      local limit, count, id = limits[l], counts[k], nil
      if limit.isConcurrent then
        id, at = unpackFrom('c16', argument, at)
      end
      if count == nil and status ~= LATE then
        count = not torn[KEYS[k]] and readCount(KEYS[k], limit, checksLength) or false
        counts[k] = count
      end
      groupCounts[i], groupLimits[i], groupCosts[i], groupIds[i] = count, limit, cost, id
      if status == LATE then
        granted = 0
      elseif not count then
        status = FOREIGN
      elseif mode == LEASE then
        granted = isWritable and lease(count, times, cost) or 0
      elseif granted > 0 then
        granted = timesThatFit(count, limit, cost, granted, id)
      end
    end

    local isDenied = granted < times and mode ~= LEASE
    if status == 0 and mode == TAKE and not isWritable then
      for i = 1, number do
        if groupCosts[i] > 0 and (granted > 0 or groupLimits[i].isCountingDenied) then
          status = UNWRITTEN
        end
      end
    end
    if status > 0 then
      granted = 0
    elseif mode == TAKE and granted > 0 then
      for i = 1, number do
        local count, cost = groupCounts[i], groupCosts[i] * granted
        if cost > 0 then
          if groupLimits[i].isLog then
            addToLog(count, cost)
          elseif groupLimits[i].isBucket then
            addToBucket(count, cost * groupLimits[i].window, now)
          elseif groupLimits[i].isConcurrent then
            takeHold(count, groupLimits[i], groupIds[i], cost)
          else
            count.current = count.current + cost
          end
          change(count)
        end
      end
    end

    for i = 1, number do
      local count, limit, cost = groupCounts[i], groupLimits[i], groupCosts[i]
      r = r + 1
      if status > 0 then
        reply[r] = usageOf(nil, 0, count and status == FOREIGN and 0 or status)
      else
        local violated = isDenied and timesThatFit(count, limit, cost, 1, groupIds[i]) == 0 and DENIED or 0
        if isDenied and mode == TAKE and limit.isCountingDenied and cost > 0 then
          -- Only up to the limit: a log keeps the newest hits, a counter gets one full window, a bucket its burst.
          local isChanged = true
          if limit.isLog then
            local most = max(count.used, limit.permits)
            addToLog(count, cost)
            if count.used > most then
              trimLog(count, count.used - most)
            end
          elseif limit.isBucket then
            local units = min(cost * limit.window, limit.capacity - levelAt(count, now))
            isChanged = units > 0
            if isChanged then
              addToBucket(count, units, now)
            end
          else
            count.current = max(count.current, min(count.current + cost, limit.permits))
          end
          if isChanged then
            change(count)
          end
        end
        reply[r] = usageOf(count, granted, violated,
          isDenied and limit.isLog and whenLogFits(count, limit.permits, cost) or now)
      end
    end
  end

  if isWritable then
    for _, count in pairs(counts) do
      if count and count.mustWrite then
        writeCount(count)
      end
    end
  end
  return table.concat(reply)
end

while true do
  local isDone, reply = pcall(decideRest)
  if isDone then
    return reply .. why
  end
  note(reply)
end
