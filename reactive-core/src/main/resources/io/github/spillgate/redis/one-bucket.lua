-- one-bucket.lua: reads the argument of a command with a single request on a single count, and decides it if it takes
-- from a token bucket and is granted. one-counter.lua says why. This is what the functions of bucket.lua do, in one
-- piece, without their tables, and before any function is created. If the write fails, nothing has been written.
--
-- Such a request takes Redis 4.1 µs if it changes a bucket in place, 5.9 µs for a new one, and 5.5 µs for one that
-- is empty each time. With the functions of bucket.lua it took 7.0, 8.5 and 8.6 µs; a counter takes 5.9, 7.7 and 6.7
-- (median usec_per_call of EVALSHA in 30 paired rounds, Redis 6.2 on two busy cores).

local LENGTH_OF_ONE = 47

local one -- the only limit with the cost, if there is one request with one count that is not a bucket

if #argument == LENGTH_OF_ONE then
  local _, kind, permits, window, resolution, denied, mode, times, deadline, _, _, _, cost =
    unpackFrom('<I2I1I7I6I6I1I1I4I7I1I2I2I7', argument)
  if mode == 1 and times == 1 and denied ~= 1 and cost > 0 and not isLate(deadline) then
    if kind ~= BUCKET then
      one = {isLog = kind == LOG, isAligned = kind == ALIGNED_COUNTER, permits = permits, window = window,
        resolution = resolution, cost = cost}
    else
      local bytes = redis.pcall('GETRANGE', KEYS[1], '0', BEHIND_HEAD)
      local written, level, at, older, age, expires = A_BUCKET, 0, 0, 0, 0, 0
      if bytes ~= '' then
        local length = #bytes -- 0 if it is an error
        if length == LONG_BUCKET then
          written, level, at, older, age, expires = unpackFrom('<I3I7I6I7I5I4', bytes)
        elseif length == SHORT_BUCKET then
          written, level, at = unpackFrom('<I3I7I6', bytes)
        else
          written = 0
        end
      end
      if written == A_BUCKET and at <= now and older <= level then
        local olderAt = at - age
        if at < now then
          level = max(0, level - (now - at) * permits)
          older = min(older, level)
          if 2 * older <= level then
            older, olderAt = level, at
          end
        end
        level = level + cost * window
        if level <= resolution * window then
          local left = level / permits
          local failure
          if now + left <= expires * 1000 then
            failure = redis.pcall('SETRANGE', KEYS[1], FRONT, pack('<I7I6I7I5', level, now, older, now - olderAt))
          elseif older == 0 then
            failure = redis.pcall('SET', KEYS[1], pack('<I3I7I6', A_BUCKET, level, now), 'PX', math.ceil(left))
          else
            expires = floor((now + left + resolution * window / permits / 2) / 1000) + 1
            failure = redis.pcall('SET', KEYS[1],
              pack('<I3I7I6I7I5I4', A_BUCKET, level, now, older, now - olderAt, expires), 'PX', expires * 1000 - now)
          end
          if type(failure) ~= 'table' or not failure.err then
            return pack(REPLY_OF_ONE, micros, 1, 0, level, 0, 0)
          end
        end
      end
    end
  end
end
