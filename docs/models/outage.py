#!/usr/bin/env python3
"""The end of an outage: several instances fall back with equal knowledge, and come back one after another.

Promise: in any window all instances together grant at most the limit (+ 1 for each instance whose share is below 1).
Rules for the time after an acknowledgement: none; design (share x (limit - usage)); share (below); all also
with a loss of all data during the outage. Usage: outage.py [SECONDS]
"""
import random
import sys
import time
from ledger import KINDS, Ledger, Limit, Server, Snapshot, ceil_div, NEVER


class Outage:
    def __init__(self, seed, kind, rule, loses):
        rnd = self.rnd = random.Random(seed)
        self.kind, self.rule = kind, rule
        self.n, self.window = rnd.choice([2, 3, 4]), 64
        self.limit = Limit(kind, rnd.choice([4, 8, 12, 24]), self.window)
        self.server = Server({0: self.limit})
        self.nodes = [Ledger(self.limit, (1, self.n)) for _ in range(self.n)]
        self.now, self.events, self.granted, self.worst = 0, 0, [], 0
        self.hold, self.room = [NEVER] * self.n, [0] * self.n
        self.loses = loses
        self.load = [rnd.choice([0, .2, 1, 3]) for _ in range(self.n)]

    def call(self, k, **command):
        self.events += 1
        ledger = self.nodes[k]
        reply = self.server.run(dict(command, sent=self.events, sent_at=self.now, keys=[0]))
        self.events += 1
        known = ledger.record(reply['usages'][0], reply, self.now, lambda life: None, self.events)
        if reply['ack'] is not None:
            ledger.acknowledge(reply['ack'], known, reply['dropped'], reply['usages'][0]['resets'], self.now)
        return reply

    def grant(self, k):
        self.granted.append(self.now)
        window, limit = self.window, self.limit.permits
        n = 0
        for at in reversed(self.granted):
            span = self.now - at
            if span >= window:
                break
            n += 1
            most = limit if self.kind == 'log' else limit * window / (window - span) if self.kind == 'counter' else \
                limit + span * limit / window
            spare = max(0, self.n - limit)  # each may grant one
            self.worst = max(self.worst, (n - spare) / most)

    def ask(self, k):
        ledger = self.nodes[k]
        if self.now < self.hold[k]:
            if self.room[k] <= 0:
                return
            self.room[k] -= 1
        reply = self.call(k, request=len(self.granted))
        if reply['granted'] and ledger.passes(reply['usages'][0], self.now):
            ledger.own(self.server.clock, 1)
            self.grant(k)

    def back(self, k):
        ledger, share = self.nodes[k], 1 / self.n
        mine = ledger.granted(self.now)
        self.call(k, look=True)
        while ledger.local_only():  # a loss shows in the reply, and is handed over before Redis decides again
            ledger.forget(self.now)
            ledger.hand_over(self.now)
            if ledger.pending:
                self.call(k, hand=ledger.command(k, 0, self.now))
        used, window, limit = ledger.seen.usage(self.now), self.window, self.limit.permits
        if self.rule == 'design':
            self.room[k] = int(share * (limit - used / window))
        elif self.rule == 'share':
            self.room[k] = int((share * (limit * window - max(0, used - mine)) - mine) / window)
        if self.rule != 'none':
            self.hold[k] = self.now + window // 2

    def step(self):
        self.now += 1
        self.server.clock += 1

    def run(self):
        rnd = self.rnd
        busy = rnd.choice([0, .1, .3])
        for _ in range(rnd.randrange(0, 100)):
            self.step()
            for k in range(self.n):
                if rnd.random() < busy:
                    self.ask(k)
        for k in range(self.n):
            self.call(k, look=True)
        start = self.now
        for _ in range(rnd.choice([4, 16, 40, 64, 150])):
            self.step()
            for k in range(self.n):
                for _ in range(rnd.choice([0, 1, 2])):
                    if rnd.random() < self.load[k] and self.nodes[k].fits(self.now):
                        self.nodes[k].grant(self.now)
                        self.grant(k)
        if self.loses:
            self.server.lose()
        comes = [self.now + rnd.randrange(0, self.window // 3) for _ in range(self.n)]
        for _ in range(self.window):
            self.step()
            for k in range(self.n):
                if self.now == comes[k] + 1:
                    self.back(k)
                for _ in range(rnd.choice([0, 1, 2])):
                    if rnd.random() < self.load[k]:
                        if self.now > comes[k] + 1:
                            self.ask(k)
                        elif self.now <= comes[k] and self.nodes[k].fits(self.now):
                            self.nodes[k].grant(self.now)
                            self.grant(k)
        return self.worst


def main():
    end = time.time() + (float(sys.argv[1]) if len(sys.argv) > 1 else 10)
    worst, count, seed = {}, {}, 0
    while time.time() < end:
        seed += 1
        for kind in KINDS:
            for loses in (False, True):
                for rule in ('none', 'design', 'share'):
                    some = Outage(seed, kind, rule, loses).run()
                    key = (kind, loses, rule)
                    count[key] = count.get(key, 0) + (some > 1 + 1e-9)
                    if some > worst.get(key, (0, 0))[0]:
                        worst[key] = (round(some, 3), seed)
    print(seed, 'outages')
    for key, some in worst.items():
        print(key, 'worst', some, 'over', count[key])


if __name__ == '__main__':
    main()
