-- quota.lua: calendar quotas. QuotaCount.java does the same, and explains the rules. The figures of a usage are the
-- used permits, and the start and the end of the period.
--
-- The calendar is in the client. A request has three boundaries of it, and so two periods, of which one contains the
-- time of this clock, as the client knows it. A stored period ends when this clock passes its end, and only then. If
-- none is stored, and the boundaries do not contain the time, the count is read as one that is outside: nothing can be
-- decided, and the client sends the request again, with the time in the reply. 'flags' is not used yet.

kinds[QUOTA] = function()

  local function read(key, limit)
    local bytes = firstBytes(key)
    local quota = {key = key, limit = limit, life = 0, used = 0, start = now, finish = now}
    if bytes ~= '' then
      if not bytes or #bytes ~= QUOTA_LENGTH then
        return nil
      end
      local written, life, used, _, start, finish = unpackFrom('<I3I2I7I1I6I6', bytes)
      if written ~= A_QUOTA then
        return nil
      end
      quota.life = life
      if now < finish then
        quota.used, quota.start, quota.finish, quota.isStored, quota.isInPlace = used, start, finish, true, true
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
      call('SETRANGE', quota.key, FRONT, pack('<I7', quota.used))
    else
      call('SET', quota.key,
        pack('<I3I2I7I1I6I6', A_QUOTA, quota.life, quota.used, 0, quota.start, quota.finish), 'PX',
        quota.finish - now)
    end
  end

  local function usage(quota)
    return quota.used, quota.start, quota.finish
  end

  local function timesThatFit(quota, cost, times)
    local free = quota.limit.permits - quota.used
    if free < cost then
      return 0
    end
    return (times == 1 or cost == 0) and times or min(times, floor(free / cost))
  end

  local function take(quota, cost)
    quota.used, quota.isStored = quota.used + cost, true
  end

  local function takeBeyond(quota, cost, most)
    local some = min(cost, most - quota.used)
    if some > 0 then
      take(quota, some)
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

  -- Takes permits of another store. They have the start and the end of their period in place of ages.
  local function add(quota, grants, permits)
    if not quota.isStored then
      quota.used, quota.start, quota.finish = 0, grants.from, grants.to
    end
    take(quota, min(permits, MOST_EXACT - quota.used))
  end

  local function charge(quota, grants)
    local lasts
    for _, some in ipairs(grants) do
      if some.permits > 0 and some.to > now then
        add(quota, some, some.permits)
        lasts = quota.finish - now
      end
    end
    return lasts
  end

  -- The numbers are that of the restored permits, and the end of their period.
  local function restore(quota, grants, earlier)
    local some, has = grants[1], earlier and earlier[2] > now and earlier[1] or 0
    if some.to > now and some.permits > has then
      add(quota, some, some.permits - has)
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
