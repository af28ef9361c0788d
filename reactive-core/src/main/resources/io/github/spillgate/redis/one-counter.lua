-- one-counter.lua: decides one question, asked once, about one counter, if it fits: what a command mostly is where
-- decisions do not come together. It stands before what logs need, for to set that up takes Redis longer than to
-- answer. decide.lua says what is asked and replied, and is left all that is not this case, or comes to nothing.
-- Nothing has been written then, for a counter takes one call.

local LOG, ON_THE_CLOCK = 1, 3
local LENGTH_OF_ONE = 47

local asked = ARGV[1]
local one -- the limit and the question, if there is one of each

if #asked == LENGTH_OF_ONE then
  local _, kind, permits, window, resolution, denied, mode, times, deadline, _, _, _, cost =
    unpackFrom('<I2I1I7I6I6I1I1I4I7I1I2I2I7', asked)
  if mode == 1 and times == 1 and denied == 0 and cost > 0 and not isLate(deadline) then
    one = {kind = kind, permits = permits, window = window, resolution = resolution, cost = cost}
  end
end

if one and one.kind ~= LOG then
  local isDone, reply = pcall(function()
    local counter = readCounter(KEYS[1], one.kind == ON_THE_CLOCK and 'clock', one.permits, one.window)
    if counter and counterFits(counter, one.permits, one.cost) then
      counter.current = counter.current + one.cost
      writeCounter(counter)
      return pack('<I7I4I1I7I7I7', micros, 1, 0, counter.previous, counter.current, counter.start)
    end
  end)
  if isDone and reply then
    return reply
  end
end
