-- reset.lua: deletes counts, and records when.
--
-- KEYS      the keys of the counts; no two are equal; then the keys of their reset marks
-- ARGV[1]   for each mark
--             life:7   for how many milliseconds permits from before the reset could be refunded
--
-- Reply: OK.
--
-- All keys are deleted first, whatever they hold, because a Redis without free memory refuses to write marks. If a
-- count and its mark are on different nodes for a moment, one call has only counts and the other only marks.

local MARK = 7
local marks = #ARGV[1] / MARK
local counts = #KEYS - marks
for i = 1, counts do
  call('DEL', KEYS[i])
end
for i = 1, marks do
  local life = unpackFrom('<I7', ARGV[1], (i - 1) * MARK + 1)
  call('SET', KEYS[counts + i], string.format('%.0f', micros), 'PX', life)
end
return redis.status_reply('OK')
