-- reset.lua: deletes counts, and records when.
--
-- KEYS      the keys of the counts; no two are equal; then the keys of their reset marks
-- ARGV[1]   deadline:7   the latest time of the reset, in microseconds on this clock; 0 if there is none
--           for each mark
--             life:7       for how many milliseconds permits from before the reset could be refunded
--
-- Reply: empty; or the time in microseconds:7, if the deadline has passed. Then nothing has been changed: a late reset
-- would delete permits that were taken after the caller was told that the counts are reset.
--
-- All keys are deleted first, whatever they hold, because a Redis without free memory refuses to write marks. If a
-- count and its mark are on different nodes for a moment, one call has only counts and the other only marks.

local DEADLINE, MARK = 7, 7
if isLate((unpackFrom('<I7', ARGV[1]))) then
  return pack('<I7', micros)
end
local marks = (#ARGV[1] - DEADLINE) / MARK
local counts = #KEYS - marks
for i = 1, counts do
  call('DEL', KEYS[i])
end
for i = 1, marks do
  local life = unpackFrom('<I7', ARGV[1], DEADLINE + (i - 1) * MARK + 1)
  call('SET', KEYS[counts + i], string.format('%.0f', micros), 'PX', life)
end
return ''
