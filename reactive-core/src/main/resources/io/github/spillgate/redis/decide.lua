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
--               cost:7      0 to permits; of a ban, the claims of its charge: for the i-th one 2 ^ i
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

-- A denied request that counts may change a log in place before another log turns out to be torn. So if there are such
-- requests, the length of every log is checked when it is read.
local limits, _, checksLength = readLimits()

-- Returns whether a denied request counts for a ban: another limit of its charge denies it, and no ban of that does.
local function isStruck(charge, number, isViolated, groupLimits)
  local isStruck = false
  for i = 1, number do
    if isViolated[i] and floor(charge / 2 ^ i) % 2 == 1 then
      if groupLimits[i].kind.isBan then
        return false
      end
      isStruck = true
    end
  end
  return isStruck
end

-- Decides the rest of the groups in memory, and then writes the counts that have changed.
local function decideRest()
  local reply, r, counts = {decidedHere}, 1, {}
  local groupCounts, groupLimits, groupCosts, groupIds, groupCharges, isViolated = {}, {}, {}, {}, {}, {}
  local at = rest
  while at <= #argument do
    local mode, times, deadline, number
    mode, times, deadline, number, at = unpackFrom('<I1I4I7I1', argument, at)
    local granted, status = times, isLate(deadline) and LATE or 0
    for i = 1, number do
      local k, l, cost
      k, l, cost, at = unpackFrom('<I2I2I7', argument, at)
      local limit, count, id = limits[l], counts[k], nil
      if limit.kind.hasIds then
        id, at = unpackFrom('c16', argument, at)
      elseif limit.kind.isBan then
        groupCharges[i], cost = cost, 0
      end
      if count == nil and status ~= LATE then
        count = not torn[KEYS[k]] and limit.kind.read(KEYS[k], limit, checksLength) or false
        counts[k] = count
      elseif count then
        count.limit = limit
      end
      groupCounts[i], groupLimits[i], groupCosts[i], groupIds[i] = count, limit, cost, id
      if status == LATE then
        granted = 0
      elseif not count then
        status = FOREIGN
      elseif count.isOutside then
        status, granted = LATE, 0
      elseif mode == LEASE then
        granted = isWritable and limit.kind.lease(count, times, cost) or 0
        if granted > 0 then
          change(count)
        end
      elseif granted > 0 then
        granted = limit.kind.timesThatFit(count, cost, granted, id)
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
        if groupCosts[i] > 0 then
          groupLimits[i].kind.take(groupCounts[i], groupCosts[i] * granted, groupIds[i])
          change(groupCounts[i])
        end
      end
    end

    for i = 1, number do
      isViolated[i] = isDenied and status == 0
        and groupLimits[i].kind.timesThatFit(groupCounts[i], groupCosts[i], 1, groupIds[i]) == 0
    end
    for i = 1, number do
      local count, limit, cost = groupCounts[i], groupLimits[i], groupCosts[i]
      r = r + 1
      if status > 0 then
        reply[r] = usageOf(nil, 0, count and status == FOREIGN and 0 or status)
      else
        local isRecorded = isDenied and mode == TAKE and limit.isCountingDenied and isWritable
          and (cost > 0 or limit.kind.isBan and isStruck(groupCharges[i], number, isViolated, groupLimits))
        if isRecorded and limit.kind.recordDenied(count, cost) then
          change(count)
        end
        reply[r] = usageOf(count, granted, isViolated[i] and DENIED or 0, isDenied and cost)
      end
    end
  end

  if isWritable then
    for _, count in pairs(counts) do
      if count and count.mustWrite then
        count.limit.kind.write(count)
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
