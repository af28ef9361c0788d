-- reset.lua: forgets one or more counts, and notes when that was. The clock is that of counts.lua.
--
-- KEYS[2i-1]  the name of the i-th count; no two are the same
-- KEYS[2i]    its mark
-- ARGV[i]     for how many milliseconds what was taken until now could still be given back
--
-- Reply: OK.
--
-- What the names hold is deleted first, whoever has written it: a Redis that is full refuses the mark else.

for i = 1, #KEYS / 2 do
  call('DEL', KEYS[2 * i - 1])
  call('SET', KEYS[2 * i], string.format('%.0f', micros), 'PX', ARGV[i])
end
return redis.status_reply('OK')
