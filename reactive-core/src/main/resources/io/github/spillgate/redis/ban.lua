-- ban.lua: bans and pauses. BanCount.java does the same, and explains the rules. The figures of a usage are 1 while the
-- key is banned, otherwise 0; then the end of the ban, or now; and 0.
--
-- No request takes anything. recordDenied is called if another limit of the same charge denies a request, and no ban.

kinds[BAN] = function()

  local DAY = 86400000

  -- Returns the longest time that a ban of this limit, or one of a call, may have.
  local function longest(limit)
    return max(DAY, limit.resolution)
  end

  local function isBanned(ban)
    return ban.finish > now
  end

  local function read(key, limit)
    local bytes = firstBytes(key, '-1')
    local ban = {key = key, limit = limit, life = 0, level = 0, start = 0, finish = 0, expires = 0, strikes = {}}
    if bytes == '' then
      return ban
    elseif not bytes or #bytes < BAN_HEAD or (#bytes - BAN_HEAD) % STRIKE ~= 0 then
      return nil
    end
    local written, life, level, start, finish, expires = unpackFrom('<I3I2I1I6I6I6', bytes)
    if written ~= A_BAN then
      return nil
    end
    ban.life, ban.level, ban.start, ban.finish, ban.expires = life, level, start, finish, expires
    if start > now then
      ban.start, ban.finish, ban.mustWrite = now, finish - (start - now), true
    end
    for at = BAN_HEAD + 1, #bytes, STRIKE do
      local struck = unpackFrom('<I6', bytes, at)
      ban.mustWrite = ban.mustWrite or struck > now
      struck = min(now, struck)
      if struck > now - limit.window then
        ban.strikes[#ban.strikes + 1] = struck
      end
    end
    return ban
  end

  local function write(ban)
    local last = ban.strikes[#ban.strikes]
    local grows = ban.limit.near > 0 and ban.level > 0 and DAY or 0
    ban.expires = max(ban.expires, now + 1, ban.finish + grows, last and last + ban.limit.window or 0)
    local value = {pack('<I3I2I1I6I6I6', A_BAN, ban.life, ban.level, ban.start, max(0, ban.finish), ban.expires)}
    for i, struck in ipairs(ban.strikes) do
      value[i + 1] = pack('<I6', struck)
    end
    call('SET', ban.key, table.concat(value), 'PX', ban.expires - now)
  end

  local function usage(ban)
    return isBanned(ban) and 1 or 0, max(now, ban.finish), 0
  end

  local function timesThatFit(ban, _, times)
    return isBanned(ban) and 0 or times
  end

  -- Bans for a time from now on, unless the present ban ends later.
  local function extend(ban, millis)
    local finish = now + min(millis, longest(ban.limit))
    if finish <= max(now, ban.finish) then
      return false
    end
    ban.start, ban.finish = now, finish
    return true
  end

  local function recordDenied(ban)
    local limit = ban.limit
    ban.strikes[#ban.strikes + 1] = now
    if #ban.strikes >= limit.permits then
      ban.strikes = {}
      local isFirst = limit.near == 0 or now >= ban.finish + DAY
      ban.level = isFirst and 1 or min(MOST_LEVEL, ban.level + 1)
      extend(ban, limit.resolution * 2 ^ (ban.level - 1))
    end
    return true
  end

  -- A grant has the time of the ban in milliseconds in place of permits.
  local function charge(ban, grants)
    local isLater = false
    for _, some in ipairs(grants) do
      isLater = extend(ban, some.permits - some.to) or isLater
    end
    return isLater and ban.finish - now or nil
  end

  -- The numbers are that of the end.
  local function restore(ban, grants)
    if charge(ban, grants) then
      return ban.finish, 0, 0
    end
  end

  local function never()
    return false
  end

  local function reach(_, ban)
    return max(1, ban.finish - now)
  end

  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = never,
    recordDenied = recordDenied, takeBeyond = never, refund = never, charge = charge, restore = restore,
    reach = reach, isBan = true}
end
