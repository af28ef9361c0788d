-- A sliding window counter as it is written by hand: the share of the previous window that the sliding one still
-- covers, and all of the current one. Several limits are charged together or not at all.
--
-- KEYS[i]            the hash of limit i: the start of the current window, its count, the count of the one before
-- ARGV[2i-1]         the permits of limit i
-- ARGV[2i]           the window of limit i, in milliseconds
-- returns            1 if one permit was taken of each limit, 0 if nothing was

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local counts = {}
for i = 1, #KEYS do
  local permits = tonumber(ARGV[2 * i - 1])
  local window = tonumber(ARGV[2 * i])
  local start = now - now % window
  local stored = redis.call('HMGET', KEYS[i], 'start', 'current', 'previous')
  local was = tonumber(stored[1])
  local current, previous = 0, 0
  if was == start then
    current, previous = tonumber(stored[2]), tonumber(stored[3])
  elseif was == start - window then
    previous = tonumber(stored[2])
  end
  if previous * (1 - (now - start) / window) + current + 1 > permits then
    return 0
  end
  counts[i] = {start, current + 1, previous, 2 * window}
end
for i = 1, #KEYS do
  local count = counts[i]
  redis.call('HSET', KEYS[i], 'start', count[1], 'current', count[2], 'previous', count[3])
  redis.call('PEXPIRE', KEYS[i], count[4])
end
return 1
