-- kinds.lua: the kinds of limits, and what all of them share. The file of each kind, such as log.lua, adds a function
-- to this table, at the number of the kind in wire.lua. It returns the functions of the kind, and is called when a
-- script first has such a limit: to create the functions of all kinds takes longer than most decisions.
--
-- A count is a table: its key, the limit of the claim at hand, its life, mustWrite, and what its kind needs. In Java,
-- the methods of Count and RateCount have the same names:
--
--   read(key, limit, checksLength)   returns the count now, or nil if the value is foreign. A count that isOutside
--                                    cannot be decided, and the client has to send the request again
--   write(count)
--   usage(count, denied)             returns the three figures of wire.lua; "denied" is the cost of a denied request
--   timesThatFit(count, cost, times, id)   returns how many of these equal requests fit, one after another; if a
--                                    number of them fits, each smaller number fits
--   take(count, cost, id)            takes a cost, above 0
--   hasIds                           true if permits are held under ids
--   isBan                            true if no permits are taken, and denials by the limits of its charge are recorded
--
-- and those of rate limits:
--
--   lease(count, parts, most)        leases at most this many permits, and one part of those that are left; returns
--                                    how many. Only of a kind that can be leased
--   recordDenied(count, cost)        charges a denied request, up to the limit; returns whether the count has changed
--   takeBeyond(count, cost, most)    takes a cost even if it does not fit, up to this many used permits; returns
--                                    whether the count has changed
--   refund(count, permits, takenAt, gone)   refunds permits that were taken at this time or, without one, the oldest;
--                                    "gone" is the time when those of a charge by charge(…) have returned; returns
--                                    whether the count has changed
--   charge(count, grants)            charges permits that were granted elsewhere; returns for how many milliseconds
--                                    they may count, or nil if none of them counts any more
--   restore(count, grants, earlier)  restores permits of a lost life; "earlier" are the three numbers in the mark of
--                                    what was restored of it before, if there is one. Returns the three new numbers,
--                                    or nil if nothing was restored
--   reach(limit, count)              returns for how many milliseconds permits count at most
local kinds = {}

-- Returns the limits, the position behind them, and whether any of them counts denied requests.
local function readLimits()
  local limits, last, at = {}, unpackFrom('<I2', argument)
  local isAnyCountingDenied, made = false, {}
  for l = 1, last do
    local number, permits, window, resolution, option, third
    number, permits, window, resolution, option, third, at = unpackFrom('<I1I7I6I6I1I6', argument, at)
    made[number] = made[number] or kinds[number]()
    local isCountingDenied = option % 2 == 1
    limits[l] = {kind = made[number], number = number, permits = permits, window = window, resolution = resolution,
      third = third, near = floor(option / 2), capacity = resolution * window, isCountingDenied = isCountingDenied}
    isAnyCountingDenied = isAnyCountingDenied or isCountingDenied
  end
  return limits, at, isAnyCountingDenied
end

-- Returns the usage of a count, or one without figures if there is no count.
local function usageOf(count, granted, status, denied)
  if not count then
    return pack(USAGE, granted, status, 0, 0, 0, 0)
  end
  return pack(USAGE, granted, status, count.life or 0, count.limit.kind.usage(count, denied))
end

-- Notes that a count has changed. One without a value gets a life.
local function change(count)
  count.mustWrite = true
  if count.life == 0 then
    count.life = birth
  end
end
