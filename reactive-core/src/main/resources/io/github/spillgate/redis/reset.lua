-- reset.lua: forgets counts, and notes when that was. The clock is that of counts.lua.
--
-- KEYS     the names of the counts; no two are the same; then those of their marks
-- ARGV[i]  of the i-th mark, for how many milliseconds what was taken until now could still be given back
--
-- Reply: OK.
--
-- What the names hold is deleted first, whoever has written it: a Redis that is full refuses the marks else. Where a
-- count and its mark are on two nodes for a moment, each of them is all that there is.

local counts = #KEYS - #ARGV
for i = 1, counts do
  call('DEL', KEYS[i])
end
for i = 1, #ARGV do
  call('SET', KEYS[counts + i], string.format('%.0f', micros), 'PX', ARGV[i])
end
return redis.status_reply('OK')
