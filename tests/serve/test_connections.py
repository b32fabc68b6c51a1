"""Clients that send drop by drop, never read, or are too many: they are hung up on, and others are served."""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlparse
from urllib.request import urlopen

import pytest

from http_server import serving
from regard.serve.connections import ConnectionLimits

BOUNDS = ConnectionLimits(most=12, header=0.5, body=0.6, stalled=0.4)
HEAD = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def url():
    with serving("translation", connections=BOUNDS) as (url, _):
        yield url


def connected(url):
    place = urlparse(url)
    made = socket.create_connection((place.hostname, place.port), timeout=10)
    made.settimeout(10)
    return made


def heard(connection):
    """All that comes until the server hangs up."""
    found = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def alive(url):
    with urlopen(f"{url}/live", timeout=5) as answer:
        return answer.status == 200


def test_a_header_that_comes_drop_by_drop_is_not_waited_for(url):
    with connected(url) as slow:
        for number in range(100):
            slow.send(HEAD[number : number + 1] or b"x")
            if select.select([slow], [], [], 0.05)[0]:
                break
        assert number < 60
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
    assert alive(url)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/pre", HEAD, HEAD + b"Content-Length: 100\r\n\r\n{"])
def test_a_request_that_never_ends_is_hung_up_on(url, sent):
    begin = time.monotonic()
    with connected(url) as slow:
        slow.sendall(sent)
        assert heard(slow).startswith(b"HTTP/1.1 408")
    assert 0.4 < time.monotonic() - begin < 5


def test_a_second_request_that_never_ends_is_hung_up_on(url):
    with connected(url) as slow:
        slow.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in slow.recv(4096)
        begin = time.monotonic()
        slow.sendall(b"GET /li")
        heard(slow)
        assert time.monotonic() - begin < 5


def test_who_comes_when_too_many_are_there_is_told_to_come_again(url):
    with ExitStack() as stack:
        many = [stack.enter_context(connected(url)) for _ in range(40)]
        time.sleep(0.2)
        many[-1].settimeout(0.2)
        told = [_first(one) for one in many]
        full = [one for one in told if one.startswith(b"HTTP/1.1 503")]
        assert len(full) >= 40 - BOUNDS.most
        head, _, body = full[0].partition(b"\r\n\r\n")
        assert b"Retry-After: 1" in head
        assert json.loads(body)["error"]["code"] == "connections"
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            assert alive(url)
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("nobody is served any more")


def _first(connection):
    connection.settimeout(0.05)
    try:
        return connection.recv(4096)
    except TimeoutError:
        return b""


def test_who_reads_nothing_is_hung_up_on_and_who_reads_slowly_is_not(url):
    body = json.dumps({"model": "translation", "input": ["one two three"] * 250, "decode": {"beam": 8, "n_best": 8}})
    asked = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body.encode()
    with connected(url) as patient, connected(url) as still:
        for one in (patient, still):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(asked)
        whole, until = b"", time.monotonic() + 30
        while not whole.endswith(b"}]}") and time.monotonic() < until:
            whole += patient.recv(16384)
            time.sleep(0.002)
        assert json.loads(whole.partition(b"\r\n\r\n")[2])["task"] == "translation"
        time.sleep(1.0)
        assert len(heard(still)) < len(whole)
    assert alive(url)
