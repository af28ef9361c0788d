#!/usr/bin/env python3
"""A random-history model of the ledger in decision 0049, with expiry, three kinds, epochs, shares, resets, several counts.

The store keeps anonymous permits (slots, two windows, a level), as the Lua scripts do. A local decision knows its epoch
and its local time. The checker alone knows which permits are alive, in true time.

Time is in ticks. W is a window. Usage is in units: a permit is W units, so that every kind is exact in integers.

Promises (class History): in every span of time, each instance gives at most what the limit allows (envelope), and so
do all of them while none has fallen back and nothing is lost; a permit that the store has granted, charged or
holds a duplicate of is known to the store at each of its commands (check_store), and so is every permit in the end, of
one instance even after losses; no life that has ended by itself is taken for lost, unless the clock was set back; not
more is restored than was lost; without losses, resets and lost replies the store knows exactly what is in use; every
hand-over is acknowledged in the end. directed() has histories that are written down.

Usage: ledger.py [SECONDS] [FIRST SEED]. Environment: BROKEN=name[,name] switches mechanisms off; STOP=1 ends at the first
failure; ONLY=log|counter|bucket, NODES=1..3 and MODE=110 (loses, late executions, resets) narrow the histories.
outage.py models the end of an outage.
"""
import os
import random
import sys
import time

BROKEN = set(filter(None, os.environ.get('BROKEN', '').split(',')))
NEVER = -10 ** 12
RESETS = 8  # three bits of the two bytes of a life count its resets


def broken(name):
    return name in BROKEN


def ceil_div(a, b):
    return -(-a // b)


class Limit:
    def __init__(self, kind, permits, window):
        self.kind, self.permits, self.window = kind, permits, window
        self.res = max(1, window // 16)      # a slot of the store's log
        self.step = max(1, window // 8)      # a slot of what an instance keeps: its grants, its own permits
        self.reach = 2 * window if kind == 'counter' else window + self.res
        self.mark_cap = 3 * window           # stands for the hour
        self.aligned = permits % 2 == 0      # of a counter


# The values of the store ------------------------------------------------------------------------------------------------

class Log:
    def __init__(self, limit, now):
        self.limit, self.slots = limit, {}

    def advance(self, now):
        limit, last = self.limit, now // self.limit.res
        for slot in [s for s in self.slots if s > last]:  # the clock was set back
            self.slots[last] = self.slots.get(last, 0) + self.slots.pop(slot)
        for slot in [s for s in self.slots if (s + 1) * limit.res + limit.window <= now]:
            del self.slots[slot]

    def used(self, now):
        return sum(self.slots.values()) * self.limit.window

    def ends(self, now):
        return (max(self.slots) + 1) * self.limit.res + self.limit.window if self.slots else now

    def take(self, now, n):
        self.slots[now // self.limit.res] = self.slots.get(now // self.limit.res, 0) + n

    def charge(self, now, grants):
        """Adds (time, permits); returns whether any still counts."""
        limit, charged = self.limit, False
        for at, n in grants:
            slot = min(at, now) // limit.res
            if (slot + 1) * limit.res + limit.window > now:
                self.slots[slot] = self.slots.get(slot, 0) + n
                charged = True
        return charged

    def refund(self, now, at, n, exact):
        """Removes permits of this slot; or, of grants that an instance has charged, the oldest, if they still count."""
        if not exact and at + self.limit.window <= now and not broken('refund_expired'):
            return
        while n > 0:
            found = [at // self.limit.res] if exact and at // self.limit.res in self.slots else [] if exact else self.slots
            if not found:
                return
            s = min(found)
            some = min(n, self.slots[s])
            n -= some
            self.slots[s] -= some
            if not self.slots[s]:
                del self.slots[s]

    def state(self):
        return dict(self.slots)


class Counter:
    def __init__(self, limit, now):
        self.limit, self.previous, self.current = limit, 0, 0
        self.start = self.opening(now)

    def opening(self, now):
        return now - now % self.limit.window if self.limit.aligned else now

    def advance(self, now):
        window = self.limit.window
        if self.start > self.opening(now):
            self.current = max(self.current, min(self.previous + self.current, self.limit.permits))
            self.previous, self.start = 0, self.opening(now)
        if now - self.start >= window:
            self.previous, self.current, self.start = self.current, 0, self.start + window
        if now - self.start >= window or not (self.previous or self.current):
            self.previous, self.current, self.start = 0, 0, self.opening(now)

    def used(self, now):
        return self.previous * (self.limit.window - (now - self.start)) + self.current * self.limit.window

    def ends(self, now):
        window = self.limit.window
        return self.start + (2 * window if self.current else window) if self.previous or self.current else now

    def take(self, now, n):
        self.current += n

    def charge(self, now, grants):
        window, charged = self.limit.window, False
        grants = sorted((min(at, now), n) for at, n in grants)
        if not (self.previous or self.current):  # replay
            grants = [(at, n) for at, n in grants if now - at < 2 * window]
            if grants:
                self.start = self.opening(grants[0][0])
            for at, n in grants:
                self.advance(at)
                self.current += n
                charged = True
            self.advance(now)
            return charged and bool(self.previous or self.current)
        for at, n in grants:
            if at >= self.start:
                self.current += n
            elif at >= self.start - window:
                self.previous += n
            else:
                continue
            charged = True
        return charged

    def refund(self, now, at, n, exact):
        if not exact:
            if at + self.limit.window > now or broken('refund_expired'):
                older = min(n, self.previous)
                self.previous, self.current = self.previous - older, max(0, self.current - (n - older))
        elif at >= self.start:
            self.current = max(0, self.current - n)
        elif at >= self.start - self.limit.window:
            self.previous = max(0, self.previous - n)

    def state(self):
        return self.previous, self.current, self.start


class Bucket:
    def __init__(self, limit, now):
        self.limit, self.level, self.at, self.birth = limit, 0, NEVER, now

    def advance(self, now):
        self.at = min(self.at, now)  # the clock was set back
        self.birth = min(self.birth, now)

    def used(self, now):
        return max(0, self.level - (now - self.at) * self.limit.permits) if self.level else 0

    def ends(self, now):
        return max(now, self.at + ceil_div(self.level, self.limit.permits)) if self.level else now

    def add(self, at, units):
        self.level, self.at = self.used(at) + units, at

    def take(self, now, n):
        self.add(now, n * self.limit.window)

    def charge(self, now, grants, units=False):
        charged = False
        for at, n in sorted(grants):
            if now - at < self.limit.reach or not broken('bucket_drops_old'):
                at = min(now, at)
                some = n if units else n * self.limit.window
                if broken('bucket_own_time'):
                    self.add(now, max(0, some - (now - at) * self.limit.permits))
                else:
                    self.add(max(at, self.at), some)
                charged = True
        return charged

    def refund(self, now, at, n, exact):
        left = n * self.limit.window - (0 if broken('bucket_refund_all') else max(0, now - at) * self.limit.permits)
        level = self.used(now)
        if left > 0 and level > 0:
            self.level, self.at = max(0, level - left), now

    def state(self):
        return self.level, self.at


KINDS = dict(log=Log, counter=Counter, bucket=Bucket)


class Server:
    """Per key: a value {value, life, until, resets}; beside it a reset mark (the stamp), and a restoration mark; and
    for each instance a mark of its hand-overs. Each has its end on the store's clock."""

    def __init__(self, limits):
        self.limits, self.clock, self.sequence, self.lives = limits, 1000, 0, 0
        self.fate, self.most = {}, {}  # of each life: how it ended, and the highest usage that it had; for the checker
        self.counts, self.marks, self.resets, self.restored = {}, {}, {}, {}

    def lose(self):
        for key in list(self.counts):
            self.lose_count(key)
        self.marks, self.resets, self.restored = {}, {}, {}

    def lose_count(self, key):
        self.read(key)
        count = self.counts.pop(key, None)
        if count:
            self.fate[count['life']] = 'lost'

    def evict_mark(self, rnd):
        marks = rnd.choice([self.marks, self.resets, self.restored])
        if marks:
            del marks[rnd.choice(sorted(marks))]

    def stamp(self):
        return self.clock * 100000 + self.sequence

    def read(self, key):
        count, now = self.counts.get(key), self.clock
        if count and count['until'] <= now:
            self.fate[count['life']] = 'expired'
            del self.counts[key]
            count = None
        if count:
            count['value'].advance(now)
            # If the clock was set back, this changes the value, which is written.
            if not broken('set_back_unwritten'):
                count['until'] = max(count['until'], count['value'].ends(now))
        return count

    def touch(self, key):
        count = self.read(key)
        if count is None:
            self.lives += 1
            count = dict(value=KINDS[self.limits[key].kind](self.limits[key], self.clock), life=self.lives, until=0,
                         resets=0)
            self.counts[key] = count
        return count

    def wrote(self, key, least=1):
        count, now = self.counts[key], self.clock
        used, life = count['value'].used(now), count['life']
        if self.limits[key].kind == 'counter':  # the weight of the previous window is not known exactly elsewhere
            used = (count['value'].previous + count['value'].current) * self.limits[key].window
        self.most[life] = max(self.most.get(life, 0), used)
        ends = count['value'].ends(now)
        count['until'] = max(ends if broken('write_shortens') else max(count['until'], ends), now + least)

    def mark(self, marks, key):
        mark = marks.get(key)
        if mark and mark['until'] <= self.clock:
            del marks[key]
            mark = None
        return mark

    def hand_over(self, hand):
        key, limit, now = hand['key'], self.limits[hand['key']], self.clock
        count = self.read(key)
        life = count['life'] if count else 0
        mark = self.mark(self.marks, (hand['who'], key))
        last, applied = (mark['number'], mark['life']) if mark else (0, 0)
        if not (last < hand['number'] or (last == hand['number'] and applied != life and not broken('mark_no_life'))):
            return mark['dropped'] or bool(count) and count['resets'] != mark['resets'] and not broken('mark_no_resets')
        reset = self.mark(self.resets, key)
        reset_at = reset['stamp'] // 100000 if reset and not broken('no_reset_mark') else NEVER
        reset_stamp = reset['stamp'] if reset and not broken('no_reset_mark') else NEVER
        if count:
            for dup in hand['duplicates']:
                self.refund_one(key, dup, True)
        grants = [(now - age, n) for age, n in hand['grants'] if now - age > reset_at]
        dropped = len(grants) < len(hand['grants'])  # granted before a reset: not charged
        if grants:
            had = count is not None
            count = self.touch(key)
            if count['value'].charge(now, grants):
                # A bucket remembers for a reach when it was changed: the time in which these returned counts once.
                self.wrote(key, limit.reach if limit.kind == 'bucket' and not broken('bucket_forgets') else 1)
            elif not had:
                self.lives -= 1
                del self.counts[key]
        for lost in hand['lost']:
            if lost['stamp'] > reset_stamp:
                self.restore(key, lost)
        count = self.read(key)
        ends = limit.reach
        if broken('mark_as_grants'):
            ends = max([limit.reach - age for age, _ in hand['grants']] + [1])
        self.marks[(hand['who'], key)] = dict(number=hand['number'], life=count['life'] if count else 0,
                                             until=now + min(limit.mark_cap, ends), dropped=dropped,
                                             resets=count['resets'] if count else 0)
        return dropped

    def restore(self, key, lost):
        """Adds what is missing to the usage that was restored of the same lost life."""
        limit, now = self.limits[key], self.clock
        if limit.kind == 'log':
            grants = [(now - age, n) for age, n in lost['grants'] if now - age + limit.window > now]
        elif limit.kind == 'counter':
            other = Counter(limit, now)
            other.previous, other.current, other.start = lost['previous'], lost['current'], now - lost['age']
            other.advance(now)
            grants = [(0, 1)] * (other.previous + other.current)
        else:
            grants = [(now - lost['age'], lost['level'])] if lost['age'] < limit.reach and lost['level'] else []
        if not grants:
            return
        count = self.touch(key)
        mark = self.mark(self.restored, key)
        if not mark or (mark['into'] != count['life'] and not broken('restored_into_any')):
            mark = dict(into=count['life'], lives={})
        if broken('lost_add'):
            mark['lives'] = {}
        value, before = count['value'], mark['lives'].get(lost['life'])
        if limit.kind == 'log':
            # For each slot, the log has as many restored permits in it and in later ones as any instance knew there.
            restored = {s: n for s, n in (before or {}).items() if (s + 1) * limit.res + limit.window > now}
            known = {}
            for at, n in grants:
                known[at // limit.res] = known.get(at // limit.res, 0) + n
            sums, more, less, total = {}, 0, 0, 0
            for s in sorted(set(restored) | set(known), reverse=True):
                more, less = more + known.get(s, 0), less + restored.get(s, 0)
                if max(more, less) > total:
                    sums[s], total = max(more, less) - total, max(more, less)
            excess = sum(max(0, n - sums.get(s, 0)) for s, n in restored.items())
            for _ in range(excess):  # they move to later slots: the oldest go
                oldest = min(value.slots, default=None)
                if oldest is None:
                    break
                value.slots[oldest] -= 1
                if not value.slots[oldest]:
                    del value.slots[oldest]
            added = [(s * limit.res, n - restored.get(s, 0)) for s, n in sums.items() if n > restored.get(s, 0)]
            value.charge(now, added)
            mark['lives'][lost['life']] = sums
            amount = total * limit.window
        elif limit.kind == 'counter':
            one = Counter(limit, now)
            one.previous, one.current, one.start = before or (0, 0, other.start)
            one.advance(now)
            isSame = abs(one.start - other.start) < limit.window / 2 and not broken('counter_exact_start')
            if not isSame and one.start != other.start and (one.previous or one.current):
                # On both sides of the end of a window: compare what is used.
                missing = max(0, ceil_div(other.used(now) - one.used(now), limit.window))
                value.current += missing
                one.current += missing
            else:
                one.start = max(one.start, other.start)
                previous, current = max(0, other.previous - one.previous), max(0, other.current - one.current)
                if not (value.previous or value.current):
                    value.previous, value.current = previous, current
                    value.start = other.start
                    if limit.aligned and not broken('restored_unaligned'):
                        # Its age is rounded by the time under way, and the clock may have been set back.
                        value.start = min(ceil_div(other.start, limit.window) * limit.window, value.opening(now))
                elif value.start == other.start:
                    value.previous, value.current = value.previous + previous, value.current + current
                else:
                    value.current += current + ceil_div(previous * (limit.window - (now - other.start)), limit.window)
                one.previous, one.current = one.previous + previous, one.current + current
            mark['lives'][lost['life']] = one.state()
            amount = (one.previous + one.current) * limit.window
        else:
            missing = max(0, lost['level'] - (before or 0))
            if missing:
                value.charge(now, [(now if broken('never') else max(value.birth, now - lost['age']), missing)], True)
            amount = max(lost['level'], before or 0)
            mark['lives'][lost['life']] = amount
        while len(mark['lives']) > 2:
            del mark['lives'][min(one for one in mark['lives'] if one != lost['life'])]
        total = amount
        if broken('lost_add'):
            self.added = getattr(self, 'added', {})
            place = (key, count['life'], lost['life'])
            total = self.added[place] = self.added.get(place, 0) + amount
        most = self.most.get(lost['life'], 0)
        # A counter of a short window may be known in another phase: a reply was under way for half a window.
        if total > most * (2 if limit.kind == 'counter' and limit.window < 1000 else 1):
            raise AssertionError('more is restored than was lost', None, total / limit.window, most / limit.window)
        mark['until'] = now + limit.reach
        self.restored[key] = mark
        self.wrote(key, limit.reach if limit.kind == 'bucket' and not broken('bucket_forgets') else 1)

    def refund_one(self, key, one, isDuplicate=False):
        """One refund: the life in which it was charged, the time of the charge, permits; the stamp, if it is known."""
        count = self.read(key)
        if not count or (count['life'] != one['life'] and not broken('refund_any_life')):
            return
        if count['resets'] % RESETS != one['resets'] and not broken('refund_after_reset'):
            return
        count['value'].refund(self.clock, one['at'], one['n'], bool(one['stamp']))
        if broken('refund_deletes') and not count['value'].used(self.clock):
            self.fate[count['life']] = 'expired'
            del self.counts[key]
        else:
            self.wrote(key)

    def run(self, command):
        self.sequence += 1
        reply = dict(stamp=self.stamp(), ack=None, granted=None, request=command.get('request'), sent=command['sent'],
                     sent_at=command['sent_at'],
                     reset=command.get('reset'), usages={})
        keys = command['keys']
        hand = command.get('hand')
        if hand:
            reply['dropped'] = self.hand_over(hand)
            reply['ack'] = hand['number']
        for key, one in command.get('refund', ()):
            self.refund_one(key, one)
        if command.get('reset'):
            for key in keys:
                count = self.touch(key)
                if broken('reset_new_life'):
                    self.fate[count['life']] = 'reset'
                    del self.counts[key]
                    count = self.touch(key)
                count['value'] = KINDS[self.limits[key].kind](self.limits[key], self.clock)
                count['resets'] += 1
                self.wrote(key)
                self.restored.pop(key, None)
                self.resets[key] = dict(stamp=self.stamp(), until=self.clock + self.limits[key].reach)
        if command.get('request') is not None:
            if command.get('late'):
                reply['granted'] = 'late'
            else:
                fits = True
                for key in keys:
                    count, limit = self.read(key), self.limits[key]
                    used = count['value'].used(self.clock) if count else 0
                    fits = fits and used + limit.window <= limit.permits * limit.window
                reply['granted'] = fits
                if fits:
                    for key in keys:
                        self.touch(key)['value'].take(self.clock, 1)
                        self.wrote(key)
        for key in keys:
            count = self.read(key)
            reply['usages'][key] = dict(
                life=count['life'] if count else 0, used=count['value'].used(self.clock) if count else 0,
                ends=count['value'].ends(self.clock) if count else self.clock,
                birth=count['value'].birth if count and self.limits[key].kind == 'bucket' else self.clock,
                resets=count['resets'] % RESETS if count else 0,
                state=count['value'].state() if count and self.limits[key].kind != 'log' else None)
        return reply


# An instance ------------------------------------------------------------------------------------------------------------

class Snapshot:
    """A reply: immutable, except for the own permits of a log. Fades by its kind."""

    def __init__(self, limit, usage, stamp, arrived):
        self.limit, self.stamp, self.at, self.arrived, self.own = limit, stamp, stamp // 100000, arrived, {}
        self.sent_at, self.order = arrived, 0  # the number of the local event in which it arrived, to compare with that of sending
        self.life, self.used, self.ends, self.state = usage['life'], usage['used'], usage['ends'], usage['state']
        self.birth, self.resets = usage['birth'], usage['resets']

    def there(self, now):
        """The time on the store's clock, or earlier."""
        return self.at + now - self.arrived

    def usage(self, now):
        """In units; of a bucket, the level without anything that was granted since."""
        then, limit = self.there(now), self.limit
        if not self.life or then >= self.ends:
            return 0
        if limit.kind == 'log':
            return max(0, self.used - self.expired(then) * limit.window)
        if limit.kind == 'counter':
            counter = Counter(limit, self.at)
            counter.previous, counter.current, counter.start = self.state
            counter.advance(then)
            return counter.used(then)
        return max(0, self.used - (then - self.at) * limit.permits)

    def expired(self, then):
        """Own permits that were certainly in use at the reply and have certainly expired."""
        limit, n = self.limit, 0
        for slot, some in self.own.items():
            if slot * limit.step + limit.window > self.at and (slot + 1) * limit.step + limit.res + limit.window <= then:
                n += some
            elif broken('own_too_early') and slot * limit.step + limit.window <= then:
                n += some
        return n

    def to_restore(self, now):
        """What is handed over of this usage, with ages."""
        limit, then = self.limit, self.there(now)
        lost = dict(life=self.life, stamp=self.stamp)
        if limit.kind == 'log':
            grants, others = [], self.usage(now) // limit.window
            for slot, n in sorted(self.own.items()):
                end = (slot + 1) * limit.step - 1  # the youngest of the slot
                n = min(n, others)
                if end + limit.res + limit.window > then and slot * limit.step + limit.window > self.at and n:
                    grants.append((then - min(end, self.ends - limit.window - 1), n))
                    others -= n
            if others > 0:
                grants.append((then - (self.ends - limit.window - 1), others))  # as young as the last one may be
            lost['grants'] = grants
        elif limit.kind == 'counter':
            counter = Counter(limit, self.at)
            counter.previous, counter.current, counter.start = self.state
            counter.advance(then)
            lost.update(previous=counter.previous, current=counter.current, age=then - counter.start)
        else:
            lost.update(level=self.used, age=then - self.at)
        return lost


class Pending:
    def __init__(self, number, grants, duplicates, lost):
        self.number, self.grants, self.duplicates, self.lost = number, grants, duplicates, lost
        self.refunds, self.late = {}, []  # refunded here since, by slot; duplicates whose twin is in it


class Ledger:
    def __init__(self, limit, share):
        self.limit, self.share = limit, share
        self.seen = Snapshot(limit, dict(life=0, used=0, ends=0, state=(0, 0, 0), birth=0, resets=0), -1, -10 ** 6)
        self.open, self.duplicates, self.pending, self.lost = {}, [], None, []
        # Grants of this epoch are open, those of the one before are pending if something is, those since charged_since
        # are in the store, in the present life and since its last reset; others are gone.
        self.epoch, self.charged_since = 1, 1
        self.number = 0  # of the newest hand-over; one sequence for each node would do

    def local_only(self):
        return bool(self.open or self.pending or self.lost)

    # Usage.

    def grants(self, now):
        """All uncharged grants by slot."""
        grants = dict(self.open)
        if self.pending and not broken('pending_not_counted'):
            for slot, n in self.pending.grants.items():
                grants[slot] = grants.get(slot, 0) + n
        return grants

    def all_lost(self):
        return [] if broken('lost_not_counted') else self.lost + (self.pending.lost if self.pending else [])

    def known(self, now):
        """What the store knows or knew: seen and lost, in units."""
        if self.limit.kind != 'bucket':
            return self.seen.usage(now) + sum(one.usage(now) for one in self.all_lost())
        # One level that returns at one rate.
        lost = sum(one.used for one in self.all_lost())
        if broken('bucket_lost_drains_too'):
            return self.seen.usage(now) + sum(one.usage(now) for one in self.all_lost())
        seen = self.seen.used if self.seen.life else 0
        return max(0, seen + lost - (now - self.seen.arrived) * self.limit.permits)

    def known_ends(self):
        """Of a bucket: when everything that the store knows or knew has returned. Grants return from then on."""
        lost = sum(one.used for one in self.all_lost())
        seen = self.seen.used if self.seen.life else 0
        return self.seen.arrived + ceil_div(seen + lost, self.limit.permits)

    def granted(self, now, grants=None):
        """Uncharged grants in units."""
        limit = self.limit
        grants = self.grants(now) if grants is None else grants
        taken = sorted((min(now, (slot + 1) * limit.step - 1), n) for slot, n in grants.items())
        if limit.kind == 'log':
            return sum(n for at, n in taken if at + limit.window > now) * limit.window
        if limit.kind == 'counter':
            counter = Counter(limit, now)
            counter.charge(now, taken)
            return counter.used(now)
        ends = NEVER if broken('bucket_drains_twice') else self.known_ends()
        level, since = 0, NEVER
        for at, n in taken:
            at = max(at, min(now, ends))
            level = max(0, level - (at - since) * limit.permits * self.share[0] / self.share[1]) + n * limit.window
            since = at
        return max(0, level - (now - since) * limit.permits * self.share[0] / self.share[1]) if level else 0

    def fits(self, now):
        limit, (part, parts) = self.limit, self.share
        most = max(1, limit.permits * part // parts)
        known = ceil_div(self.known(now) * part, limit.window * parts)
        return known + ceil_div(self.granted(now), limit.window) + 1 <= most

    def passes(self, usage, now):
        """Whether a grant of the store may be passed on."""
        limit = self.limit
        lost = sum(one.used if limit.kind == 'bucket' else one.usage(now) for one in self.all_lost())
        if broken('no_check'):
            return True
        used = max(usage['used'], self.seen.usage(now))
        if broken('check_reply'):
            used = usage['used']
        return ceil_div(used + lost, limit.window) + ceil_div(self.granted(now), limit.window) <= limit.permits

    # Events.

    def grant(self, now):
        slot = now // self.limit.step
        self.open[slot] = self.open.get(slot, 0) + 1
        return self.epoch

    def own(self, at, n):
        if self.limit.kind == 'log':
            own, slot = self.seen.own, at // self.limit.step
            own[slot] = own.get(slot, 0) + n
            if not own[slot] or own[slot] < 0:
                del own[slot]

    def record(self, usage, reply, now, check, order):
        """Records a reply; returns whether its life is that of the newest."""
        seen = self.seen
        is_same, fresh_at = usage['life'] == seen.life, reply['stamp'] // 100000
        sent_later = reply['sent'] > seen.order and not broken('stamp_only')
        newer = sent_later or ((is_same or not seen.life or broken('stamp_only')) and reply['stamp'] > seen.stamp)
        # Its life has ended by then, on the store's clock and, at the latest possible time, by the local clock.
        expired = seen.life and fresh_at >= seen.ends and seen.at + now - seen.sent_at >= seen.ends
        newer = newer or expired and not broken('no_expired_order')
        if broken('expired_store_only'):
            newer = newer or fresh_at >= seen.ends
        if broken('sent_only'):
            newer = sent_later
        if broken('always_newer'):
            newer = True
        if newer:
            fresh = Snapshot(self.limit, usage, reply['stamp'], now)
            fresh.order, fresh.sent_at = order, reply['sent_at']
            if (not is_same or usage['resets'] != seen.resets) and not broken('charged_since'):
                self.charged_since = self.epoch - 1 if self.pending else self.epoch
            if is_same:
                if usage['resets'] == seen.resets or broken('own_after_reset'):
                    fresh.own = seen.own
            else:
                # In use by the local clock, and alive at the time of the reply, on the store's clock.
                in_use = seen.usage(now) > 0 or broken('alive_store_only') and seen.used > 0
                if seen.life and in_use and (fresh.at < seen.ends or broken('alive_local_only')):
                    check(seen.life)
                    self.lose(seen, fresh, now)
            self.seen = fresh
        return usage['life'] == self.seen.life

    def lose(self, seen, fresh, now):
        if self.limit.kind == 'bucket':
            # It returned until the next life began; from then on, what that returns is returned only once.
            until = now if broken('bucket_lost_until_now') else fresh.birth
            level = seen.used - max(0, until - seen.at) * self.limit.permits if not broken('bucket_until_seen') else seen.used
            if level <= 0:
                return
            usage = dict(life=seen.life, used=level, ends=fresh.at + ceil_div(level, self.limit.permits), state=None,
                         birth=0, resets=0)
            lost = Snapshot(self.limit, usage, seen.stamp, now)
            lost.at = fresh.at
        else:
            lost = seen
        if broken('lost_forgotten'):
            return
        self.lost = [one for one in self.lost if one.life != lost.life] + [lost]
        if len(self.lost) > 2 and broken('lost_two'):
            del self.lost[0]

    def hand_over(self, now):
        if self.pending is None and (self.open or self.lost):
            self.epoch += 1
            self.number += 1
            self.pending = Pending(self.number, self.open, self.duplicates, self.lost)
            self.open, self.duplicates, self.lost = {}, [], []

    def excess(self):
        """A hand-over has at most as many duplicates as grants: executed twice, it charges too much, not too little."""
        more = len(self.duplicates) - sum(self.open.values())
        if more <= 0 or broken('excess_duplicates'):
            return []
        some, self.duplicates = self.duplicates[:more], self.duplicates[more:]
        return some

    def command(self, who, key, now):
        """A hand-over as it is sent at this time: the same number and the same grants, with their ages now."""
        p, limit = self.pending, self.limit
        if broken('renumber'):
            self.number += 1
            p.number = self.number
        grants = []
        for slot, n in sorted(p.grants.items()):
            at = min(now, (slot + 1) * limit.step - 1)
            if limit.kind == 'bucket' and not broken('bucket_age'):
                at = max(at, min(now, self.known_ends()))
            grants.append((max(0, now - at), n))
        return dict(who=who, key=key, number=p.number, grants=grants, duplicates=list(p.duplicates),
                    lost=[one.to_restore(now) for one in p.lost if self.counts(one, now)])

    def counts(self, lost, now):
        """Whether lost usage still counts. That of a bucket is part of one level, and grants return only after it."""
        if self.limit.kind == 'bucket' and not broken('lost_alone'):
            return self.known(now) > 0 or self.granted(now) > 0 and not broken('lost_before_grants')
        return lost.usage(now) > 0

    def forget(self, now):
        """Drops what can no longer count."""
        p = self.pending
        if p:
            p.lost = [one for one in p.lost if self.counts(one, now)]
        self.lost = [one for one in self.lost if self.counts(one, now)]

        def counts(grants):  # the level of a bucket is due to all of them
            return self.granted(now, self.grants(now) if self.limit.kind == 'bucket' and not broken('forget_parts') else grants)
        if self.open and not counts(self.open):
            self.open = {}
        if p and not counts(p.grants) and not p.lost:
            # Its permits have expired. They may have been charged or not: their refunds do nothing any more.
            self.pending = None
            self.charged_since = self.epoch
            return p.late + (p.duplicates if broken('dropped_duplicates') else [])
        return []

    def acknowledge(self, number, is_known_life, dropped, resets, now):
        """The reply to a hand-over. Returns the refunds to send."""
        p = self.pending
        if not p or p.number != number and not broken('ack_any_number'):
            return []
        if is_known_life or broken('ack_any_life'):
            self.pending = None
            if (dropped or resets != self.seen.resets) and not broken('dropped_ignored'):
                self.charged_since = self.epoch  # some of it is not charged: its refunds do nothing
                return p.late
            return [self.charged_refund(slot, n) for slot, n in p.refunds.items()] + p.late
        # It was applied in a life that is lost since: the same again, under a new number. What was refunded since
        # is cancelled; its duplicates were in a life that is lost.
        self.number += 1
        p.number = self.number
        if not broken('remade_refunds'):
            for slot, n in p.refunds.items():
                p.grants[slot] -= n
                if not p.grants[slot]:
                    del p.grants[slot]
        late, p.refunds, p.late = p.late, {}, []
        if not broken('remade_duplicates'):
            p.duplicates = []
        return late

    def charged_refund(self, slot, n):
        """A refund of grants that the store has: its time on the store's clock, or earlier."""
        at = slot * self.limit.step + self.seen.at - self.seen.arrived
        if broken('refund_late_time'):
            at += 3 * self.limit.step
        return dict(life=self.seen.life, resets=self.seen.resets, at=at, n=n, stamp=0)

    def refund(self, epoch, at, now):
        """A local decision is refunded. Returns the refunds to send."""
        slot = at // self.limit.step
        if epoch == self.epoch:
            if self.open.get(slot, 0) > 0:
                self.open[slot] -= 1
                if not self.open[slot]:
                    del self.open[slot]
        elif self.pending and epoch == self.epoch - 1 and not broken('refund_pending_now'):
            waiting = self.pending.refunds.get(slot, 0)
            if waiting < self.pending.grants.get(slot, 0):
                self.pending.refunds[slot] = waiting + 1
        elif epoch >= self.charged_since and self.seen.life:
            return [self.charged_refund(slot, 1)]
        return []

    def duplicate(self, epoch, one):
        """A late reply granted what the fallback granted, too. Returns the refunds to send."""
        if broken('dup_now'):
            return [one]
        if epoch == self.epoch:
            self.duplicates.append(one)
        elif self.pending and epoch == self.epoch - 1:
            if broken('dup_pending_now'):
                return [one]
            self.pending.late.append(one)
        else:
            return [one]
        return []

    def reset_began(self, now):
        """What is open may not be charged after the reset. Returns what reset_ended() needs."""
        self.hand_over(now)
        return self.epoch, self.number, now

    def reset_ended(self, epoch, number, began):
        """A reset has succeeded: what was granted or known before it began is forgiven."""
        if self.pending and self.pending.number <= number and not broken('reset_keeps_pending'):
            self.pending = None
        if not broken('reset_keeps_charged'):
            self.charged_since = max(self.charged_since, epoch)
        self.lost = [one for one in self.lost if one.arrived >= began]


# Histories --------------------------------------------------------------------------------------------------------------

class History:
    def __init__(self, seed, kind, instances, loses, lates, resets):
        rnd = self.rnd = random.Random(seed)
        self.seed, self.n, self.loses, self.lates, self.resets = seed, instances, loses, lates, resets
        window = rnd.choice([16, 32, 64, 10 ** 6])
        self.keys = list(range(rnd.choice([1, 1, 2])))
        self.limits = {k: Limit(kind, rnd.choice([1, 2, 3, 4, 5, 8]), window) for k in self.keys}
        self.window, self.kind = window, kind
        self.server = Server(self.limits)
        shared = instances > 1 and rnd.random() < .5
        self.share = (1, instances) if shared else (1, 1)
        self.nodes = [{k: Ledger(self.limits[k], self.share) for k in self.keys} for _ in range(instances)]
        self.drift = rnd.choice([0, 0, 1, -1]) if window < 1000 else 0
        self.offsets = [rnd.randrange(-50, 50) for _ in range(instances)]
        self.drifts = [self.drift * rnd.choice([0, 1, -1]) for _ in range(instances)]
        self.tolerance = 2 + (window // 32 if self.drift else 0)
        self.lanes = {(k, lane): [] for k in range(instances) for lane in range(2)}
        self.replies, self.requests, self.alive, self.events = [], {}, {}, 0
        self.delay = 0  # the longest time for which a reply was under way
        self.now, self.clean, self.stepped, self.fell_back = 0, not loses, False, False
        self.always_ask = rnd.random() < .4
        self.reset_at = {k: -1 for k in self.keys}

    def local(self, k):
        return self.now + self.offsets[k] + self.now * self.drifts[k] // 64 + 1000

    def fail(self, what, *more):
        raise AssertionError(what, self.seed, *more)

    def send(self, k, keys, **command):
        self.events += 1
        command.update(sent=self.events, sent_at=self.local(k), keys=keys, by=k)
        self.lanes[(k, self.rnd.randrange(2))].append(command)

    def refunds(self, k, key, ones):
        for one in ones:
            self.send(k, [key], refund=[(key, one)])

    # Decisions.

    def decide_locally(self, k, q):
        r, now = self.requests[q], self.local(k)
        self.fell_back = True
        ledgers = [self.nodes[k][key] for key in r['keys']]
        r['local'] = all(one.fits(now) for one in ledgers)
        if r['local']:
            r['epochs'] = {key: self.nodes[k][key].grant(now) for key in r['keys']}
            r['at'] = now
            r['start'] = min(self.now, r.get('executed', self.now)) if r['remote'] is True else self.now
            r['end'], r['kind'] = self.now, 'l'
            self.alive[q] = r
            self.check(k, q)
        self.match(k, q)

    def match(self, k, q):
        r = self.requests[q]
        if r['local'] is None or r['remote'] is not True or r['matched']:
            return
        r['matched'] = True
        for key in r['keys']:
            one = r['charged'][key]
            if not r['local'] or q not in self.alive:
                self.refunds(k, key, [one])
            else:
                self.refunds(k, key, self.nodes[k][key].duplicate(r['epochs'][key], one))

    def refund(self, q):
        r = self.alive.pop(q)
        k = r['k']
        for key in r['keys']:
            ledger = self.nodes[k][key]
            if r['kind'] == 'r':
                one = r['charged'][key]
                if (one['life'], one['resets']) == (ledger.seen.life, ledger.seen.resets) and not broken('own_refunds'):
                    ledger.own(one['at'], -1)
                self.refunds(k, key, [one])
            else:
                self.refunds(k, key, ledger.refund(r['epochs'][key], r['at'], self.local(k)))

    def arrive(self, k, reply):
        now, q = self.local(k), reply['request']
        self.delay = max(self.delay, self.now - reply['run_at'])
        known = {}
        for key, usage in reply['usages'].items():
            ledger = self.nodes[k][key]

            def check(life):
                fate = self.server.fate.get(life)
                if fate != 'lost' and not self.stepped:  # then it may be, near the end of a life
                    self.fail('a false loss', fate)
            self.events += 1
            known[key] = ledger.record(usage, reply, now, check, self.events)
            if reply['ack'] is not None:
                self.refunds(k, key, ledger.acknowledge(reply['ack'], known[key], reply['dropped'], usage['resets'], now))
            if reply['reset']:
                ledger.reset_ended(*reply['reset'][key])
        if q is None:
            return
        r, granted = self.requests[q], reply['granted']
        if granted is True and broken('own_not_passed'):
            for key in r['keys']:
                self.nodes[k][key].own(reply['stamp'] // 100000, 1)
        r['remote'] = granted
        if granted is True:
            r['charged'] = {key: dict(life=usage['life'], resets=usage['resets'], at=reply['stamp'] // 100000,
                                       n=1, stamp=reply['stamp'])
                            for key, usage in reply['usages'].items()}
        if r['done']:
            self.match(k, q)
            return
        r['done'] = True
        passes = granted is True and (all(known.values()) or broken('old_life_grant')) and all(
            self.nodes[k][key].passes(usage, now) for key, usage in reply['usages'].items())
        if passes:
            for key in r['keys']:
                self.nodes[k][key].own(reply['stamp'] // 100000, 1)
            r['matched'] = True
            r['start'], r['end'], r['kind'] = r['executed'], self.now, 'r'
            self.alive[q] = r
            self.check(k, q)
        elif granted is not False:
            self.decide_locally(k, q)

    # Promises.

    def check(self, k, q):
        """A permit was given to a caller: it fits into the limit, with those that its instance has given before."""
        for key in self.requests[q]['keys']:
            mine = [r for r in self.alive.values() if r['k'] == k and key in r['keys'] and r['start'] > self.reset_at[key]]
            self.envelope(key, mine, self.limits[key].permits, 'one instance over the limit')
            if not self.fell_back and not self.loses:
                every = [r for r in self.alive.values() if key in r['keys'] and r['start'] > self.reset_at[key]]
                self.envelope(key, every, self.limits[key].permits, 'all instances over the limit')

    def envelope(self, key, permits, limit, what):
        """For each span of time that ends now, the permits that lie in it as a whole."""
        window, slack = self.window, self.tolerance
        starts = sorted((r['start'] for r in permits), reverse=True)
        for n, start in enumerate(starts, 1):
            if n <= limit:
                continue
            span = self.now - start + slack
            if span >= window:
                break
            if self.kind == 'log':
                most = limit
            elif self.kind == 'counter':
                most = limit * window // (window - span)
            else:
                most = limit + ceil_div(span * limit, window)
            if n > most:
                self.fail(what, n, most, span)

    def truth(self, key, covered):
        """The least that the store must know of these permits, in units."""
        limit, window = self.limits[key], self.window
        starts = sorted(r['start'] - self.tolerance for r in covered)
        if self.kind == 'log':
            return sum(1 for at in starts if self.now - at < window) * window
        if self.kind == 'counter':
            return sum(max(0, window - (self.now - at)) for at in starts)
        level, since = 0, 0
        for at in starts:
            level, since = max(0, level - (at - since) * limit.permits) + window, at
        # Grants here return while nothing else is known to be in use: a reply that is under way for long is not known.
        level -= limit.permits * self.delay if window < 1000 else 0
        return max(0, level - (self.now - since) * limit.permits)

    def check_store(self, key, r_filter, what):
        covered = [r for r in self.alive.values() if key in r['keys'] and r['start'] > self.reset_at[key] and r_filter(r)]
        count = self.server.read(key)
        used = count['value'].used(self.server.clock) if count else 0
        least = self.truth(key, covered)
        if used < least:
            self.fail(what, used / self.window, least / self.window)

    def execute(self, k, lane, command):
        q = command.get('request')
        if q is not None and self.requests[q]['gone'] and not (self.lates and self.rnd.random() < .3):
            command['late'] = True
        reply = self.server.run(command)
        reply['run_at'] = self.now
        if q is not None and reply['granted'] is True:
            r = self.requests[q]
            r['executed'] = self.now
            if q in self.alive:
                r['covered'] = True  # by its duplicate, until the hand-over replaces it
                r['start'] = min(r['start'], self.now)
        hand = command.get('hand')
        if hand:
            for r in self.alive.values():
                if r['k'] == k and r['kind'] == 'l' and hand['key'] in r['keys'] and \
                        r['epochs'][hand['key']] == hand['epoch']:
                    r.setdefault('handed', set()).add(hand['key'])
        if command.get('reset'):
            for key in command['keys']:
                self.reset_at[key] = self.now
        if not self.loses and not (self.kind == 'bucket' and self.n > 1 and self.window < 1000):
            for key in command['keys']:
                self.check_store(key, lambda r: r['kind'] == 'r' or r.get('covered') or key in r.get('handed', ()),
                                 'the store knows too little')
        self.replies.append((k, lane, reply))

    def hand_over(self, k, key):
        ledger, now = self.nodes[k][key], self.local(k)
        self.refunds(k, key, ledger.forget(now))
        self.refunds(k, key, ledger.excess())
        ledger.hand_over(now)
        if ledger.pending:
            hand = ledger.command(k, key, now)
            hand['epoch'] = ledger.epoch - 1
            self.send(k, [key], hand=hand)

    def tick(self, some):
        self.now += some
        self.server.clock += some

    def run(self, steps):
        rnd, server, count = self.rnd, self.server, 0
        for _ in range(steps):
            self.tick(rnd.choice([0, 0, 1, 1, 2]))
            if rnd.random() < .01 and self.window < 1000:
                self.tick(rnd.choice([self.window // 4, self.window // 2, self.window, 2 * self.window + 9]))
            dice = rnd.random()
            if dice < .30:
                k, q = rnd.randrange(self.n), count
                count += 1
                keys = sorted(rnd.sample(self.keys, rnd.randrange(1, len(self.keys) + 1)))
                self.requests[q] = dict(k=k, keys=keys, local=None, remote=None, done=False, gone=False, matched=False)
                if not self.always_ask and any(self.nodes[k][key].local_only() for key in keys):
                    self.requests[q]['done'] = True
                    self.decide_locally(k, q)
                else:
                    self.send(k, keys, request=q)
            elif dice < .36:
                self.hand_over(rnd.randrange(self.n), rnd.choice(self.keys))
            elif dice < .60:
                busy = [one for one in self.lanes.items() if one[1]]
                if busy:
                    (k, lane), queue = rnd.choice(busy)
                    self.execute(k, lane, queue.pop(0))
            elif dice < .86 and self.replies:
                first = {}
                for n, (k, lane, _) in enumerate(self.replies):
                    first.setdefault((k, lane), n)
                k, lane, reply = self.replies.pop(rnd.choice(sorted(first.values())))
                if rnd.random() < .1:
                    self.clean = False  # the reply is lost
                else:
                    self.arrive(k, reply)
            elif dice < .93:
                waiting = [q for q in self.requests if not self.requests[q]['done']]
                if waiting:
                    q = rnd.choice(waiting)
                    self.requests[q].update(done=True, gone=True)
                    self.decide_locally(self.requests[q]['k'], q)
            elif dice < .965 and self.alive:
                self.refund(rnd.choice(sorted(self.alive)))
            elif dice < .98 and self.loses:
                what = rnd.random()
                if what < .4:
                    server.lose()
                elif what < .8:
                    server.lose_count(rnd.choice(self.keys))
                else:
                    server.evict_mark(rnd)
                self.clean = False
                if what < .4 and rnd.random() < .3 and not self.resets:
                    server.clock -= rnd.choice([3, 5, self.window // 2 if self.window < 1000 else 40])
                    self.stepped = True
            elif dice < .99 and self.resets and self.resets < RESETS:
                self.resets += 1
                k = rnd.randrange(self.n)
                keys = [rnd.choice(self.keys)]
                begun = {}
                for key in keys:
                    begun[key] = self.nodes[k][key].reset_began(self.local(k))
                self.clean = False
                self.send(k, keys, reset=begun)
        self.drain()

    def drain(self):
        asked = 0
        for _ in range(80):
            self.tick(1 if self.rnd.random() < .3 else 0)
            for (k, lane), queue in self.lanes.items():
                while queue:
                    self.execute(k, lane, queue.pop(0))
            while self.replies:
                k, lane, reply = self.replies.pop(0)
                self.arrive(k, reply)
            for q, r in self.requests.items():
                if not r['done']:
                    r.update(done=True, gone=True)  # its reply was lost
                    self.decide_locally(r['k'], q)
            for k in range(self.n):
                for key in self.keys:
                    self.hand_over(k, key)
            if not any(self.lanes.values()) and not any(x.local_only() for one in self.nodes for x in one.values()):
                if asked == 3:
                    break
                asked += 1  # idle counts are not checked: each instance asks again, and a loss shows
                for k in range(self.n):
                    self.send(k, self.keys, look=True)
        else:
            self.fail('a hand-over is never acknowledged')
        for key in self.keys:
            if self.kind == 'bucket' and self.n > 1 and self.window < 1000:
                continue  # the others' permits return by then, too: by the shares, not exactly
            if not self.loses or self.n == 1:
                self.check_store(key, lambda r: True, 'a loss is not restored' if self.loses else 'the store knows too little')
            if self.clean and self.window > 1000:
                count = self.server.read(key)
                used = count['value'].used(self.server.clock) if count else 0
                alive = sum(1 for r in self.alive.values() if key in r['keys'])
                if self.kind == 'bucket':  # a refund leaves what may have returned
                    used -= self.window // 2
                if ceil_div(used, self.window) > alive:
                    self.fail('the store knows too much', used / self.window, alive)


class Directed:
    """One history that is written down: commands are executed and answered when it says so."""

    def __init__(self, kind='log', permits=10, nodes=1, window=64):
        self.limit = Limit(kind, permits, window)
        self.server = Server({0: self.limit})
        self.nodes = [Ledger(self.limit, (1, 1)) for _ in range(nodes)]
        self.now = self.events = 0

    def tick(self, some):
        self.now += some
        self.server.clock += some

    def command(self, **command):
        self.events += 1
        return dict(command, sent=self.events, sent_at=self.now, keys=[0])

    def hand(self, k=0):
        for one in self.nodes[k].excess():
            self.server.run(self.command(refund=[(0, one)]))
        self.nodes[k].hand_over(self.now)
        return self.command(hand=self.nodes[k].command(k, 0, self.now))

    def arrive(self, reply, k=0):
        self.events += 1
        ledger, usage, false = self.nodes[k], reply['usages'][0], []

        def check(life):
            if self.server.fate.get(life) != 'lost':
                raise AssertionError('directed: a false loss', None)
        known = ledger.record(usage, reply, self.now, check, self.events)
        refunds = []
        if reply['ack'] is not None:
            refunds = ledger.acknowledge(reply['ack'], known, reply['dropped'], usage['resets'], self.now)
        if reply['reset']:
            ledger.reset_ended(*reply['reset'][0])
        return known, refunds

    def do(self, k=0, **command):
        return self.arrive(self.server.run(self.command(**command)), k)

    def take(self, k=0):
        reply = self.server.run(self.command(request=1))
        known, _ = self.arrive(reply, k)
        usage = reply['usages'][0]
        self.nodes[k].own(self.server.clock, 1)
        return dict(life=usage['life'], resets=usage['resets'], at=self.server.clock, n=1, stamp=reply['stamp'])

    def grant(self, n=1, k=0):
        for _ in range(n):
            assert self.nodes[k].fits(self.now)
            epoch = self.nodes[k].grant(self.now)
        return epoch

    def refund(self, epoch, at, k=0):
        return self.nodes[k].refund(epoch, at, self.now)

    def used(self):
        count = self.server.read(0)
        return count['value'].used(self.server.clock) / self.limit.window if count else 0

    def expect(self, what, value, expected):
        if value != expected:
            raise AssertionError('directed: ' + what, None, value, expected)


def directed():
    d = Directed()  # DEL of a count, between the execution of a hand-over and its acknowledgement, which is lost
    d.grant(3)
    d.server.run(d.hand())
    d.server.lose_count(0)
    d.arrive(d.server.run(d.hand()))
    d.expect('a hand-over that was applied in a lost life is applied again', d.used(), 3)

    d = Directed()  # executed, then all is lost, then another reply, then its acknowledgement; one was refunded in between
    epoch = d.grant(3)
    reply = d.server.run(d.hand())
    d.refund(epoch, d.now)
    d.server.lose()
    d.take()
    d.arrive(reply)
    d.arrive(d.server.run(d.hand()))
    d.expect('made again without what was refunded', (d.used(), d.nodes[0].local_only()), (3, False))
    for one in d.refund(epoch, d.now):
        d.do(refund=[(0, one)])
    d.expect('a refund after that', d.used(), 2)

    d = Directed(permits=3)  # a grant of Redis is read after the acknowledgement of a hand-over that was charged after it
    request = d.command(request=1)
    d.grant(3)
    hand = d.hand()
    late = d.server.run(request)
    d.arrive(d.server.run(hand))
    d.arrive(late)
    d.expect('a grant passes only if it fits with what is charged since',
             d.nodes[0].passes(late['usages'][0], d.now), False)

    d = Directed()  # a hand-over is executed after a reset by another instance
    epoch = d.grant(3)
    hand = d.hand()
    d.tick(5)
    d.do(1, reset={0: (1, 0, 0)}) if len(d.nodes) > 1 else d.server.run(d.command(reset={0: (1, 0, 0)}))
    d.arrive(d.server.run(hand))
    hand['hand']['grants'] = [(5, 3)]
    d.take()
    d.expect('grants from before a reset: at most those that look younger', d.used() <= 4, True)
    d = Directed()
    d.grant(3)
    d.tick(9)
    hand = d.hand()
    d.server.run(d.command(reset={0: (1, 0, 0)}))
    d.arrive(d.server.run(hand))
    d.expect('grants from before a reset are not charged', d.used(), 0)

    for again in (False, True):  # granted before a reset by another instance, charged before it or not, refunded after
        d = Directed(nodes=2)
        epoch = d.grant(3)
        d.tick(9)
        hand = d.hand()
        if again:
            d.server.run(d.hand())
        d.server.run(d.command(reset={0: (1, 0, 0)}))
        for _ in range(3):
            d.take(1)
        d.arrive(d.server.run(hand))
        for one in d.refund(epoch, 0):
            d.server.run(d.command(refund=[(0, one)]))
        d.expect('a refund of what a reset has removed', d.used(), 3)

    d = Directed(nodes=2)  # duplicates whose twins are refunded, and the mark of their hand-over is evicted
    epoch = d.grant(2)
    for _ in range(2):
        d.nodes[0].duplicate(epoch, d.take())
        d.take(1)
        d.refund(epoch, 0)
    d.grant()
    copy = d.hand()
    d.server.run(d.hand())
    d.server.marks = {}
    d.server.run(copy)
    d.expect('two of others and one', d.used() >= 3, True)

    d = Directed()  # a reset by this instance, while what it has granted is open
    d.grant(9)
    d.do(reset={0: d.nodes[0].reset_began(d.now)})
    d.expect('a reset frees what is open', (d.nodes[0].granted(d.now), d.used()), (0, 0))

    d = Directed(nodes=2)  # a reset by another instance, and 8 hits of others: own permits are gone, not expired
    for _ in range(5):
        d.take()
    d.server.run(d.command(reset={0: (1, 0, 0)}))
    d.tick(50)
    for _ in range(8):
        d.take(1)
    d.do(0, look=True)
    d.tick(30)
    d.expect('own permits of before a reset do not expire', d.nodes[0].seen.usage(d.now), 8 * d.limit.window)

    d = Directed(nodes=2)  # a loss and a reset, in both orders
    for order in (0, 1):
        d = Directed(nodes=2)
        for _ in range(5):
            d.take()
        if order:
            d.server.run(d.command(reset={0: (1, 0, 0)}))
            d.take(1)
            d.server.lose_count(0)
        else:
            d.server.lose_count(0)
            d.server.run(d.command(reset={0: (1, 0, 0)}))
        d.take(1)
        d.do(0, look=True)
        d.arrive(d.server.run(d.hand()))
        d.expect('lost usage of before a reset is not restored', d.used(), 1 + 0)

    d = Directed(nodes=2)  # two instances restore the same life, and a third life follows
    for _ in range(4):
        d.take()
    d.do(1, look=True)
    d.server.lose()
    for k in (0, 1):
        d.do(k, look=True)
        d.arrive(d.server.run(d.hand(k)), k)
    d.expect('restored once', d.used(), 4)
    d.server.lose_count(0)
    for k in (0, 1):
        d.do(k, look=True)
        d.arrive(d.server.run(d.hand(k)), k)
    d.expect('restored once in the next life', d.used(), 4)

    d = Directed(nodes=2)  # a duplicate that is younger than its twin; its slot is used by another instance, too
    d.grant()
    d.tick(40)
    d.nodes[0].duplicate(1, d.take())
    d.take(1)
    d.take(1)
    d.tick(22)
    copy = d.hand()
    d.server.run(d.hand())
    for _ in range(3):
        d.tick(3)
        for one in d.nodes[0].forget(d.now):
            d.server.run(d.command(refund=[(0, one)]))
        if d.nodes[0].pending:
            d.server.run(d.hand())
    d.expect('a duplicate is refunded once', d.used() >= 2, True)
    d.tick(8)
    d.server.run(copy)
    d.expect('a duplicate is refunded once, even by a late copy', d.used() >= 2, True)

    d = Directed(nodes=2)  # an instance that never saw the second life restores the first one into the third
    for _ in range(4):
        d.take()
    d.do(1, look=True)
    d.server.lose()
    d.do(0, look=True)
    d.arrive(d.server.run(d.hand(0)), 0)
    d.server.lose_count(0)
    d.do(1, look=True)
    d.arrive(d.server.run(d.hand(1)), 1)
    d.expect('restored into a third life', d.used(), 4)

    d = Directed()  # 40 instances know a saturated key, support resets it: none denies
    d = Directed(nodes=40)
    for _ in range(10):
        d.take()
    for k in range(40):
        d.do(k, look=True)
    d.server.run(d.command(reset={0: (1, 0, 0)}))
    for k in range(40):
        d.do(k, look=True)
        d.expect('no loss by a reset', (d.nodes[k].lost, d.nodes[k].fits(d.now)), ([], True))

    d = Directed(nodes=2)  # not looked at for long, while others write
    d.take()
    for _ in range(20):
        d.tick(30)
        d.take(1)
    d.do(0, look=True)
    d.expect('no loss after many writes', d.nodes[0].lost, [])

    d = Directed(permits=8)  # two commands under way while a life ends by itself: the second creates the next one
    d.take()
    first, second = d.command(look=True), d.command(request=1)
    reply = d.server.run(first)
    d.tick(70)
    other = d.server.run(second)
    d.arrive(reply)
    d.tick(1)
    known, _ = d.arrive(other)
    d.expect('a reply of the next life', (known, d.nodes[0].lost), (True, []))

    d = Directed()  # a life ends by itself, and then the clock is set back
    d.take()
    d.tick(80)
    d.server.read(0)
    d.server.clock -= 75
    d.do(request=1)
    d.expect('no loss by a clock that is set back', d.nodes[0].lost, [])

    d = Directed('bucket', nodes=2)  # what is lost returns only once the next life has returned
    for _ in range(8):
        d.take()
    d.server.lose()
    for _ in range(6):
        d.take(1)
    d.do(0, look=True)
    d.tick(30)
    d.expect('one level', d.nodes[0].known(d.now), 14 * 64 - 30 * 10)
    d.arrive(d.server.run(d.hand()))
    d.expect('one level in the store', d.used(), (14 * 64 - 30 * 10) / 64)

    d = Directed('bucket', nodes=2)  # what is lost returned until the next life began
    for _ in range(8):
        d.take()
    d.server.lose()
    d.tick(30)
    d.take(1)
    d.do(0, look=True)
    d.arrive(d.server.run(d.hand()))
    d.expect('until the next life', d.used(), (8 * 64 - 30 * 10 + 64) / 64)

    for back in (0, 5, 10, 20):  # an aligned counter is lost, and the new primary's clock is behind
        d = Directed('counter')
        d.tick(30)
        for _ in range(8):
            d.take()
        d.tick(back // 10)
        d.server.lose()
        d.server.clock -= back
        d.do(0, look=True)
        d.arrive(d.server.run(d.hand()))
        d.expect('all of an aligned counter', d.used(), 8)

    d = Directed('bucket', nodes=2)  # older grants than the bucket's last change
    d.tick(5)
    d.grant(5)
    d.tick(15)
    for _ in range(5):
        d.take(1)
    d.tick(4)
    d.arrive(d.server.run(d.hand()))
    d.expect('from the last change on', d.used(), (10 * 64 - 4 * 10) / 64)

    d = Directed('bucket')  # a hand-over that would have returned alone
    d.grant()
    d.hand()
    d.grant(9)
    d.tick(14)
    level = d.nodes[0].granted(d.now)
    d.nodes[0].forget(d.now)
    d.expect('one level of all grants', d.nodes[0].granted(d.now), level)

    d = Directed()  # absent, then an older reply of the lost life
    for _ in range(5):
        d.take()
    old = d.server.run(d.command(look=True))
    for _ in range(2):
        d.take()
    look = d.command(look=True)
    d.server.lose()
    d.arrive(d.server.run(look))
    d.arrive(old)
    d.do(look=True)
    d.arrive(d.server.run(d.hand()))
    d.expect('all of a lost life', d.used(), 7)


def main():
    end = time.time() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    kinds = [os.environ['ONLY']] if 'ONLY' in os.environ else ['log', 'counter', 'bucket']
    modes = ((0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1))
    if 'MODE' in os.environ:  # e.g. 110: loses, late executions, resets
        modes = [tuple(int(c) for c in os.environ['MODE'])]
    numbers = [int(os.environ['NODES'])] if 'NODES' in os.environ else [1, 2, 3]
    directed()
    held, failed, first, began = 0, {}, None, time.time()
    while time.time() < end and not (failed and 'STOP' in os.environ):
        for kind in kinds:
            for instances in numbers:
                for loses, lates, resets in modes:
                    seed += 1
                    one = History(seed, kind, instances, loses, lates, resets)
                    try:
                        one.run(random.Random(seed).choice([40, 70, 140]))
                        held += 1
                    except AssertionError as e:
                        if first is None:
                            first = (held, time.time() - began)
                        failed.setdefault((kind, e.args[0]), []).append((seed, instances, loses, lates, resets) + e.args[1:])
    print(held, 'histories held')
    if first:
        print('first failure after %d histories, %.1f s' % first)
    for key, all_ in sorted(failed.items()):
        print(len(all_), key, all_[:3])


if __name__ == '__main__':
    main()
