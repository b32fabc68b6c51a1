"""Too many users, of whom some leave, some dawdle and some send garbage: no wrong answer, none lost, and an end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from http.client import HTTPConnection
from random import Random
from urllib.parse import urlparse

import regard
from http_server import RUNS, serving
from regard.serve.limits import Limits

SECONDS, USERS = 5.0, 24


class User:
    """Somebody who asks again and again; what came back is counted, and what was answered is kept."""

    def __init__(self, url, seed, until):
        self.place, self.chance, self.until = urlparse(url).netloc, Random(seed), until
        self.counts, self.answers, self.problems = Counter(), [], []

    def run(self):
        while time.monotonic() < self.until:
            act = self.chance.choices([self.ask, self.leave, self.dawdle, self.garbage], [6, 2, 1, 1])[0]
            try:
                act()
            except Exception as problem:
                self.problems.append(repr(problem))
                return

    def request(self):
        text = " ".join(self.chance.choices(["one", "two", "three", "four"], k=self.chance.randint(1, 40)))
        ways = [{}, {"beam": 3}, {"strategy": "sample", "seed": self.chance.randint(0, 9)}]
        return {"model": "translation", "input": text, "decode": self.chance.choice(ways) | {"max_length": 40}}

    def connection(self, path, body):
        connection = HTTPConnection(self.place, timeout=20)
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        return connection

    def ask(self):
        body = self.request()
        connection = self.connection("/v1/predict", json.dumps(body))
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        self.counts[answer.status] += 1
        if answer.status == 200:
            self.answers.append((body, said["data"][0]))
        elif answer.status not in (429, 503) or "retry-after" not in {name.lower() for name, _ in answer.getheaders()}:
            self.problems.append((answer.status, said))

    def leave(self):
        connection = self.connection("/v1/predict", json.dumps(self.request()))
        time.sleep(self.chance.random() * 0.02)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
        self.counts["left"] += 1

    def dawdle(self):
        body = {"model": "language", "prompt": "the", "stream": True, "decode": {"max_length": 100, "min_length": 99}}
        connection = self.connection("/v1/completions", json.dumps(body))
        answer = connection.getresponse()
        for _ in range(3):
            time.sleep(0.05)
            answer.read(20)
        answer.close()
        connection.close()
        self.counts["dawdled"] += 1

    def garbage(self):
        junk = bytes(self.chance.randrange(256) for _ in range(self.chance.randint(0, 200)))
        connection = self.connection("/v1/predict", junk)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 400:
            self.problems.append((answer.status, junk))


def test_a_storm_leaves_no_wrong_answer_and_nobody_behind():
    with serving("translation", "language", limits=Limits(queue=4, rows=8)) as (url, served):
        users = [User(url, seed, time.monotonic() + SECONDS) for seed in range(USERS)]
        threads = [threading.Thread(target=user.run) for user in users]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS + 30)
        assert not [problem for user in users for problem in user.problems]
        counts = sum((user.counts for user in users), Counter())
        assert counts[200] > 20
        assert counts[429] > 0
        until = time.monotonic() + 10
        engines = [model.engine for model in served.models.values()]
        while any(engine.n_running or engine.n_waiting for engine in engines):
            assert time.monotonic() < until
            time.sleep(0.02)
    alone = regard.load(RUNS / "translation", "cpu")
    for body, said in [answer for user in users for answer in user.answers][:150]:
        assert said == json.loads(json.dumps(alone(body["input"], **body["decode"]).record())), body
