-- decide.lua: verdicts over counts, one after another, all at the same instant. Each is all or nothing over its counts.
--
-- KEYS[i]   the name of the i-th count; no two are the same
-- ARGV[1]   numbers, unsigned, little-endian, of so many bytes:
--             limits:2, then so many times
--               kind:1        1 for a log, 2 for a counter with windows from the first hit, 3 for one with
--                             windows on the clock
--               permits:7     how many a window holds
--               window:6      its length in milliseconds
--               resolution:6  of a log, the length of a slot in milliseconds; else 1
--               denied:1      1 if a denied request counts too, else 0
--             then, to the end, as many questions as there are
--               mode:1        1 to charge, 0 to tell what charging would answer
--               times:4       how often it is asked, one time after another; 1 if a denied request counts, or
--                             if nothing is charged
--               deadline:7    the last microsecond at which it may be decided, on this clock; 0 if there is none
--               counts:1, then so many times
--                 key:2       the number of the count
--                 limit:2     the number of the limit
--                 cost:7      0 to permits
--
-- Reply: the time in microseconds:7, then of each question and each of its counts, as it is after that:
--     allowed:4   how many times the question is allowed, the first ones; the others are denied
--     verdict:1   1 if the cost did not fit, for denied requests; FOREIGN if the value is not ours; UNWRITTEN if
--                 the charge could not be written; LATE if the deadline had passed; else 0
--     log:        used:7; when the cost fits:7; when nothing is used any more:7
--     counter:    previous:7; current:7; start of the window:7
--   then why something could not be written, as text; mostly nothing
--
-- "When the cost fits" is looked up where somebody is denied, and is the present else. A question that cannot be
-- decided changes nothing and keeps no other from being decided.

local FOREIGN, UNWRITTEN, LATE = 2, 3, 4

-- What is torn, or cannot be written, is found out on the way, and all is decided once more, knowing that. No head has
-- been written by then, so nothing is changed; but for a log whose later expiry is refused, which is charged by then,
-- and is told to be unwritten. It must not be charged again.
local torn = {} -- the keys of such values
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

-- One question about one log, as one-counter.lua has it about a counter.
if one and one.kind == LOG then
  local isDone, reply = pcall(function()
    local log = readLog(KEYS[1], one)
    if log and log.used + one.cost <= one.permits then
      addToLog(log, one.cost)
      writeLog(log)
      return pack('<I7I4I1I7I7I7', micros, 1, 0, log.used, now, (log.newest + 1) * one.resolution + one.window)
    end
  end)
  if not isDone then
    note(reply)
  elseif reply then
    return reply
  end
end

-- When enough of the oldest hits have left. They are counted from the oldest on, or, if that is nearer, from the newest
-- back.
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

-- How many times the cost fits, one after another. What fits after more has been taken fits before that.
local function timesThatFit(isLog, count, permits, cost, times)
  if isLog then
    local free = permits - count.used
    if free < cost then
      return 0
    end
    return cost == 0 and times or min(times, floor(free / cost))
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

local limits, number, questions = {}, unpackFrom('<I2', asked)
-- A denied request that counts changes a log where it lies, before it is known whether another one is torn. So there
-- every log is looked at before that.
local isAnyCounting = false
for l = 1, number do
  local kind, permits, window, resolution, denied
  kind, permits, window, resolution, denied, questions = unpackFrom('<I1I7I6I6I1', asked, questions)
  limits[l] = {isLog = kind == LOG, kind = kind == ON_THE_CLOCK and 'clock', permits = permits, window = window,
    resolution = resolution, denied = denied == 1}
  isAnyCounting = isAnyCounting or denied == 1
end

-- Decides all that is asked, in memory, and then writes what has changed.
local function decideAll()
  local reply, r, counts = {pack('<I7', micros)}, 1, {}
  local mine, under, costs = {}, {}, {} -- of the question at hand: its counts, their limits and costs
  local at = questions
  while at <= #asked do
    local mode, times, deadline, number
    mode, times, deadline, number, at = unpackFrom('<I1I4I7I1', asked, at)
    local allowed, verdict = times, isLate(deadline) and LATE or 0
    for i = 1, number do
      local k, l, cost
      k, l, cost, at = unpackFrom('<I2I2I7', asked, at)
      local limit, count = limits[l], counts[k]
      if count == nil and verdict ~= LATE then
        if torn[KEYS[k]] then
          count = false
        elseif limit.isLog then
          count = readLog(KEYS[k], limit, isAnyCounting)
        else
          count = readCounter(KEYS[k], limit.kind, limit.permits, limit.window)
        end
        counts[k] = count or false
      end
      mine[i], under[i], costs[i] = count, limit, cost
      if verdict == LATE then
        allowed = 0
      elseif not count then
        verdict = FOREIGN
      elseif allowed > 0 then
        allowed = timesThatFit(limit.isLog, count, limit.permits, cost, allowed)
      end
    end

    local isDenied = allowed < times
    if verdict == 0 and mode == 1 and not isWritable then
      for i = 1, number do
        if costs[i] > 0 and (allowed > 0 or under[i].denied) then
          verdict = UNWRITTEN
        end
      end
    end
    if verdict > 0 then
      allowed = 0
    elseif mode == 1 and allowed > 0 then
      for i = 1, number do
        local count, cost = mine[i], costs[i] * allowed
        if cost > 0 then
          if under[i].isLog then
            addToLog(count, cost)
          else
            count.current = count.current + cost
          end
          count.changed = true
        end
      end
    end

    for i = 1, number do
      local count, limit, cost = mine[i], under[i], costs[i]
      if verdict > 0 then
        r = r + 1
        reply[r] = pack('<I4I1I7I7I7', allowed, count and verdict == FOREIGN and 0 or verdict, 0, 0, 0)
      else
        local violated = isDenied and timesThatFit(limit.isLog, count, limit.permits, cost, 1) == 0 and 1 or 0
        if isDenied and mode == 1 and limit.denied and cost > 0 then
          -- Only as much as keeps the client out: of a log the newest that are permitted, of a counter one full window.
          if limit.isLog then
            local most = max(count.used, limit.permits)
            addToLog(count, cost)
            if count.used > most then
              trimLog(count, count.used - most)
            end
          else
            count.current = max(count.current, min(count.current + cost, limit.permits))
          end
          count.changed = true
        end
        if limit.isLog then
          r = r + 1
          reply[r] = pack('<I4I1I7I7I7', allowed, violated, count.used,
            isDenied and whenLogFits(count, limit.permits, cost) or now,
            count.used > 0 and (count.newest + 1) * limit.resolution + limit.window or now)
        else
          r = r + 1
          reply[r] = pack('<I4I1I7I7I7', allowed, violated, count.previous, count.current, count.start)
        end
      end
    end
  end

  if isWritable then
    for _, count in pairs(counts) do
      if count and (count.changed or count.mended) then
        if count.limit then
          writeLog(count)
        else
          writeCounter(count)
        end
      end
    end
  end
  return table.concat(reply)
end

while true do
  local isDone, reply = pcall(decideAll)
  if isDone then
    return reply .. why
  end
  note(reply)
end
