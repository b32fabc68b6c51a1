"""HTML that is translated: what is text, what is markup, and that nothing a model writes becomes markup."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import regard
from http_server import RUNS, serving
from regard.serve.app import create_app
from regard.serve.markup import pieces, written


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("<p>A <b>dog</b> &amp; a\n cat.</p>", ["A", "dog", "& a cat."]),
        ('<a title="a > b" href=x>one</a>', ["one"]),
        ("<script>if (a < b) { run('one') }</script><p>two</p>", ["two"]),
        ("<STYLE>p { }</STYLE>one<style>x", ["one"]),
        ("<!-- <p>no</p> -->one<!-- never ended", ["one<!-- never ended"]),
        ("one < two and 3 > 2", ["one < two and 3 > 2"]),
        ('<p translate="no">name</p><p>one</p>', ["one"]),
        ("<br/>one<br />two", ["one", "two"]),
        ("&lt;script&gt;", ["<script>"]),
        ("<p>12 | &copy; 3</p>", []),
        ("İ" * 9 + "<script>x</script>one", ["İ" * 9, "one"]),
        ("", []),
        ("<a href='", ["<a href='"]),
    ],
)
def test_what_is_text(text, translated):
    assert [piece for piece, own in pieces(text) if own] == translated


@given(st.text(alphabet="<>/!-\"'ab &;=\n", max_size=60))
def test_what_stays_is_of_the_text_and_text_that_is_written_is_no_markup(text):
    found = pieces(text)
    place = 0
    for piece, own in found:
        if not own:
            place = text.index(piece, place) + len(piece)
    again = "".join(written(piece) if own else piece for piece, own in found)
    assert [piece for piece, own in pieces(again) if own] == [piece for piece, own in found if own]


@pytest.mark.parametrize("piece", ["<a '", '<a "', "<!--", "<script>", "</", "<a>", "&amp", "<code>"])
def test_long_ones_take_no_longer_than_they_are_long(piece):
    begin = time.perf_counter()
    pieces(piece * (100_000 // len(piece)))
    assert time.perf_counter() - begin < 2


def test_a_page_is_translated_between_its_tags():
    alone = regard.load(RUNS / "translation", "cpu")
    with serving("translation") as (_, served), TestClient(create_app(served)) as client:
        asked = {"q": "<p class='x'>one two</p>\n<i>three</i>", "source": "en", "target": "de", "format": "html"}
        said = client.post("/translate", json=asked)
        want = [written(alone(text).text) for text in ("one two", "three")]
        assert said.json()["translatedText"] == f"<p class='x'>{want[0]}</p>\n<i>{want[1]}</i>"
        ways = client.post("/translate", json=asked | {"alternatives": 2}).json()["alternatives"]
        assert all(way.startswith("<p class='x'>") for way in ways)
        assert client.post("/translate", json=asked | {"format": "rtf"}).status_code == 400
        assert client.post("/translate", json=asked | {"q": "<br>" * 9}).json()["translatedText"] == "<br>" * 9
