-- quota.lua: calendar quotas. QuotaCount.java does the same, and explains the rules. The figures of a usage are the
-- used permits, the start of the period, plus IS_NEAR if the group has reached the mark first, and its end.
--
-- The calendar is in the client. A request has three boundaries of it, and so two periods, of which one contains the
-- time of this clock, as the client knows it. A stored period ends when this clock passes its end, and only then. If
-- none is stored, and the boundaries do not contain the time, the count is read as one that is outside: nothing can be
-- decided, and the client sends the request again, with the time in the reply.
--
-- 'flags' is 1 from the decision on that has reached the mark, until the period ends or is reset.

kinds[QUOTA] = function()

  local IS_NEAR = 2 ^ 50 -- above all times

  local function read(key, limit)
    local bytes = firstBytes(key)
    local quota = {key = key, limit = limit, life = 0, used = 0, flags = 0, start = now, finish = now}
    if bytes ~= '' then
      if not bytes or #bytes ~= QUOTA_LENGTH then
        return nil
      end
      local written, life, used, flags, start, finish = unpackFrom('<I3I2I7I1I6I6', bytes)
      if written ~= A_QUOTA then
        return nil
      end
      quota.life = life
      if now < finish then
        quota.used, quota.flags, quota.start, quota.finish = used, flags, start, finish
        quota.isStored, quota.isInPlace = true, true
        return quota
      end
    end
    local first, second, third = limit.window, limit.resolution, limit.third
    if now < first or now >= third then
      quota.isOutside = true
    elseif now < second then
      quota.start, quota.finish = first, second
    else
      quota.start, quota.finish = second, third
    end
    return quota
  end

  local function write(quota)
    if quota.isInPlace then
      call('SETRANGE', quota.key, FRONT, pack('<I7I1', quota.used, quota.flags))
    else
      call('SET', quota.key,
        pack('<I3I2I7I1I6I6', A_QUOTA, quota.life, quota.used, quota.flags, quota.start, quota.finish), 'PX',
        quota.finish - now)
    end
  end

  local function usage(quota)
    local start = quota.isNear and quota.start + IS_NEAR or quota.start
    quota.isNear = false
    return quota.used, start, quota.finish
  end

  local function timesThatFit(quota, cost, times)
    local free = quota.limit.permits - quota.used
    if free < cost then
      return 0
    end
    return (times == 1 or cost == 0) and times or min(times, floor(free / cost))
  end

  local function add(quota, permits)
    quota.used, quota.isStored = quota.used + permits, true
  end

  local function take(quota, cost)
    add(quota, cost)
    local limit = quota.limit
    if limit.near > 0 and quota.flags == 0 then
      local hundreds = floor(limit.permits / 100)
      local rest = math.ceil((limit.permits - 100 * hundreds) * limit.near / 100)
      if quota.used >= hundreds * limit.near + rest then
        quota.flags, quota.isNear = 1, true
      end
    end
  end

  local function takeBeyond(quota, cost, most)
    local some = min(cost, most - quota.used)
    if some > 0 then
      add(quota, some)
    end
    return some > 0
  end

  local function recordDenied(quota, cost)
    return takeBeyond(quota, cost, quota.limit.permits)
  end

  local function refund(quota, permits, takenAt, gone)
    local less = min(quota.used, permits)
    if takenAt and (takenAt < quota.start or takenAt >= quota.finish) or gone and gone <= quota.start or less == 0 then
      return false
    end
    quota.used = quota.used - less
    return true
  end

  -- Adds permits of another store. They have the start and the end of their period in place of ages.
  local function addGrants(quota, grants, permits)
    if not quota.isStored then
      quota.used, quota.start, quota.finish = 0, grants.from, grants.to
    end
    add(quota, min(permits, MOST_EXACT - quota.used))
  end

  local function charge(quota, grants)
    local lasts
    for _, some in ipairs(grants) do
      if some.permits > 0 and some.to > now then
        addGrants(quota, some, some.permits)
        lasts = quota.finish - now
      end
    end
    return lasts
  end

  -- The numbers are that of the restored permits, and the end of their period.
  local function restore(quota, grants, earlier)
    local some, has = grants[1], earlier and earlier[2] > now and earlier[1] or 0
    if some.to > now and some.permits > has then
      addGrants(quota, some, some.permits - has)
      return some.permits, some.to, 0
    end
  end

  local function reach(_, quota)
    return quota.finish - now
  end

  return {read = read, write = write, usage = usage, timesThatFit = timesThatFit, take = take,
    recordDenied = recordDenied, takeBeyond = takeBeyond, refund = refund, charge = charge, restore = restore,
    reach = reach}
end
