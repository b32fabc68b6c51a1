"""The page at `/` in a real browser, before a real server: every task answers through it.

It takes Chromium (`apt-get install chromium`, or its path in REGARD_CHROMIUM) and the Python package playwright.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

import regard
from http_server import RUNS, serving
from regard.serve.limits import Limits
from regard.serve.page import document

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
CHROMIUM = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium found: apt-get install chromium, or set REGARD_CHROMIUM to its path"
)
DATA = RUNS.parent / "data"
TASKS = ("translation", "language", "masked", "labels", "answers", "images", "captions", "speech", "series", "words")
FILES = {"images": "images/test/**/*.png", "captions": "captions/**/*.png", "speech": "speech/*.wav",
         "series": "series/hours.csv"}  # fmt: skip
ODD = "<img src=x onerror=alert(1)>.png"


@pytest.fixture(scope="module")
def chatting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "chatting"
    shutil.copytree(RUNS / "language", folder)
    (folder / "chat_template.jinja").write_text(
        "{{ eos_token }}{% for one in messages %}{{ one.content }} {% endfor %}"
    )
    return folder


@pytest.fixture(scope="module")
def server(chatting):
    with serving(*TASKS, places={"chatting": chatting}) as running:
        yield running


@pytest.fixture(scope="module")
def url(server):
    return server[0]


@pytest.fixture(scope="module")
def alone():
    return {name: regard.load(RUNS / name, "cpu") for name in TASKS}


@pytest.fixture(scope="module")
def browser():
    microphone = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with playwright.sync_playwright() as run:
        found = run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", *microphone])
        yield found
        found.close()


class Visit:
    """The page as somebody sees it, with what went wrong on it and whom it asked."""

    def __init__(self, browser, url, model="", **options):
        self.problems, self.asked = [], []
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("dialog", lambda dialog: (self.problems.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.url = url
        self.page.goto(f"{url}/#{model}")
        self.ready()

    def ready(self):
        self.page.wait_for_selector('html[data-ready="yes"]')

    def choose(self, model):
        self.page.click(f'#models label:has(input[value="{model}"])')

    def find(self, selector):
        return self.page.locator(f".panel:visible {selector}")

    def write(self, text, number=0):
        self.find("textarea:visible").nth(number).fill(text)

    def send(self):
        self.find("textarea:visible").first.press("Control+Enter")

    def give(self, path):
        self.find("input[type=file]").set_input_files(path)

    def answer(self):
        self.find(".result:not(:empty):not([aria-busy=true])").first.wait_for()
        return self.find(".result").first

    def problem(self):
        line = self.find(".problem:not(:empty)").first
        line.wait_for()
        return line.inner_text()

    def looked_at(self):
        """The title of what the viewer shows, once it has drawn it."""
        self.find(".look:visible button[aria-expanded]").click()
        frame = self.page.frame_locator(".panel:visible .stage iframe")
        frame.locator('html[data-ready="yes"]').wait_for(state="attached")
        return frame

    def until(self, condition):
        for _ in range(200):
            if condition():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError("it never came to that")

    def fits(self):
        return self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def visit(browser, url):
    found = Visit(browser, url)
    yield found
    assert found.problems == []
    assert all(one.startswith((url, "blob:", "data:")) for one in found.asked), "it asks nobody but its server"
    found.context.close()


def a_file(name):
    return sorted(DATA.glob(FILES[name]))[0]


def ask(visit, name):
    """Ask a model something that it can answer; gives what was asked."""
    given = {
        "translation": ["one two three"],
        "language": ["the cat"],
        "masked": ["the <mask> sees a dog ."],
        "labels": ["the cat sees a dog ."],
        "answers": ["who sees", "the cat sees a dog ."],
        "words": ["cat"],
    }
    if name in FILES:
        visit.give(a_file(name))
        return str(a_file(name))
    for number, text in enumerate(given[name]):
        visit.write(text, number)
    visit.send()
    return "\t".join(given[name])


# ---- every task


@pytest.mark.parametrize("name", TASKS)
def test_every_task_answers_and_shows_what_it_looked_at(visit, alone, name):
    visit.choose(name)
    asked = ask(visit, name)
    shown, record = visit.answer(), alone[name](asked).record()
    if "probabilities" in record:
        best = shown.locator("li.first")
        assert best.locator(".name").inner_text() == record["label"]
        assert best.locator(".share").inner_text() == f"{100 * record['probability']:.1f} %"
    elif "masks" in record:
        assert shown.locator(".prose").inner_text() == record["text"]
        guesses = [one["token"].removeprefix("▁") for one in record["masks"][0]]
        assert shown.locator(".name").all_inner_texts() == guesses
    elif "answer" in record:
        assert shown.locator("mark").inner_text() == record["answer"]
        assert shown.locator(".passage").inner_text() == asked.split("\t")[1]
    elif "neighbours" in record:
        assert shown.locator(".name").all_inner_texts() == [one["word"] for one in record["neighbours"]]
    elif "forecast" in record:
        assert shown.locator("figcaption b").all_inner_texts() == ["one", "two"]
        assert shown.locator("svg .band").count() == 2
        assert shown.locator("svg .past").count() == 2
        shown.locator("summary").click()
        assert shown.locator("tbody th").all_inner_texts() == record["times"]
    else:
        assert record["text"].strip() in shown.inner_text()
    if "words" in record:
        assert shown.locator(".word b").all_inner_texts() == [one["word"] for one in record["words"]]
    if name == "words":
        assert not visit.find(".look").is_visible(), "vectors look at nothing"
        return
    frame = visit.looked_at()
    title = frame.locator("#read").inner_text() + frame.locator("#kicker").inner_text()
    expected = {"series": a_file("series").name, "language": "the cat", "answers": "sees"}
    assert expected.get(name, a_file(name).name if name in FILES else asked.split()[0]) in title
    if "text" in record and name not in ("masked", "language"):
        assert frame.locator("#wrote").inner_text() == record["text"], "it is that very answer"


def test_what_is_in_a_record_is_shown_whatever_task_it_is_from(visit):
    def strange(route):
        route.fulfill(json={"data": [{"whatever": "<b>bold</b>"}]})

    visit.page.route("**/v1/predict", strange)
    visit.choose("labels")
    visit.write("the cat")
    visit.send()
    assert '"whatever": "<b>bold</b>"' in visit.answer().inner_text()


def test_texts_are_compared(visit, alone):
    visit.choose("masked")
    visit.page.get_by_role("tab", name="Compare texts").click()
    visit.write("one text")
    visit.send()
    assert visit.problem() == "Write at least two texts, one a line."
    texts = ["the cat sees a dog .", "a bird", "the cat"]
    visit.write("\n\n".join(texts))
    visit.send()
    visit.page.wait_for_selector(".heat")
    vectors = alone["masked"].embed(texts, normalise=True)
    shown = [float(cell) for cell in visit.find(".heat tbody td").all_inner_texts()]
    assert shown == pytest.approx((vectors @ vectors.T).flatten().tolist(), abs=0.006)


def test_a_model_that_only_gives_vectors_compares_texts(browser, url):
    def headless(route):
        answer = route.fetch().json()
        answer["data"] = [one | {"parts": []} for one in answer["data"] if one["id"] == "masked"]
        route.fulfill(json=answer)

    context = browser.new_context()
    context.route("**/v1/models", headless)
    page = context.new_page()
    page.goto(url)
    page.fill("textarea", "the cat\na dog")
    page.click("text=Compare")
    page.wait_for_selector(".heat")
    page.select_option(".look select", index=1)
    page.click(".look button")
    page.frame_locator("iframe").locator("#read").get_by_text("a dog").wait_for()
    assert page.locator("[role=tab]").count() == 0
    context.close()


# ---- writing


def test_a_text_comes_as_it_is_written_and_stops(visit, server):
    visit.choose("language")
    visit.write("the")
    visit.page.route("**/v1/completions", lambda route: route.continue_(post_data=_endless(route.request.post_data)))
    visit.send()
    fresh = visit.find(".fresh")
    lengths = []
    for _ in range(3):
        before = len(fresh.inner_text())
        visit.page.wait_for_function("n => document.querySelector('.fresh').textContent.length > n", arg=before)
        lengths.append(before)
    assert lengths == sorted(set(lengths)), "it grows before it has ended"
    visit.page.get_by_role("button", name="Stop").click()
    engine = server[1].models["language"].engine
    until = time.monotonic() + 5
    while engine.n_running and time.monotonic() < until:
        time.sleep(0.01)
    assert engine.n_running == 0, "nobody works for who has stopped"
    assert visit.find("textarea").input_value() == "the"
    assert visit.find(".problem:not(:empty)").count() == 0


def _endless(body):
    return json.dumps(json.loads(body) | {"max_tokens": None, "decode": {"max_length": 4000, "min_length": 3999}})


def test_options_are_sent_and_what_was_kept_goes_on(visit, alone):
    visit.choose("language")
    visit.write("the cat")
    for name, value in (("temperature", "0.7"), ("max_length", "9"), ("seed", "5")):
        visit.find(f"[name={name}]").fill(value)
    visit.send()
    want = alone["language"]("the cat", temperature=0.7, seed=5, max_length=9)
    visit.find(".story").get_by_text(want.text.strip()).wait_for()
    visit.answer()
    assert f"{len(want.ids)} token" in visit.find(".result .note").inner_text()
    visit.page.get_by_role("button", name="Keep it and go on").click()
    assert visit.find("textarea").input_value() == "the cat" + want.text
    visit.answer()
    visit.find("[name=temperature]").fill("9")
    visit.send()
    assert visit.problem().startswith("Temperature: ")


def test_a_conversation(visit, alone):
    visit.choose("chatting")
    visit.write("the cat")
    visit.find("textarea:visible").press("Enter")
    want = alone["language"]("the cat ").text.strip()
    visit.find(".said-by-assistant").get_by_text(want, exact=True).wait_for()
    assert visit.find(".said-by-user").inner_text() == "the cat"
    assert visit.find("textarea:visible").input_value() == ""
    visit.page.get_by_role("button", name="New conversation").click()
    assert visit.find(".talk p").count() == 0
    visit.page.get_by_role("tab", name="Conversation").press("ArrowRight")
    visit.write("the cat")
    visit.send()
    assert alone["language"]("the cat").text.strip() in visit.answer().inner_text()


# ---- translating


def test_it_translates_line_by_line_as_one_pauses(visit, alone):
    visit.choose("translation")
    assert visit.find(".sides label").inner_text() == "English"
    visit.find("textarea").evaluate(
        """area => [..."one two"].forEach((letter, i) => setTimeout(() => {
            area.value += letter;
            area.dispatchEvent(new Event("input"));
        }, 40 * i))"""
    )
    visit.find(".translated .prose").wait_for()
    assert sum(one.endswith("/v1/predict") for one in visit.asked) == 1, "it waits for a pause"
    visit.write("one two\n\nthree four")
    visit.page.wait_for_function("() => document.querySelectorAll('.translated .prose').length === 3")
    shown = [text for text in visit.find(".translated .prose").all_inner_texts() if text]
    assert shown == [alone["translation"](line).text for line in ("one two", "three four")]
    visit.find("[name=n_best]").fill("3")
    visit.find(".ways").first.wait_for()
    want = alone["translation"]("one two", beam=3, n_best=3)
    assert visit.find(".ways").first.locator("span").all_inner_texts() == [one.text for one in want.alternatives]
    visit.find(".look select").select_option(index=1)
    assert visit.looked_at().locator("#read").inner_text() == "three four"


def test_an_older_translation_never_overtakes(visit, alone):
    held = []
    visit.choose("translation")
    visit.page.route("**/v1/predict", lambda route: held.append(route) if not held else route.continue_())
    visit.write("one")
    given_up = []
    visit.page.on("requestfailed", lambda request: given_up.append(request.failure))
    visit.until(lambda: held)
    visit.write("three four")
    visit.find(".translated .prose").wait_for()
    assert visit.answer().inner_text().strip() == alone["translation"]("three four").text
    visit.until(lambda: given_up)
    assert "ERR_ABORTED" in given_up[0], "the older one was given up"


def test_a_word_that_is_pointed_at_says_what_was_read(visit):
    visit.choose("translation")
    visit.write("one two three")
    word, shares = read_for_the_first_word(visit)
    assert word == visit.find(".word-read").first.inner_text()
    assert set(shares) == {"one", "two", "three"}
    assert sum(shares.values()) <= 100.2


def test_characters_are_read_as_words(browser):
    with serving("translation-recurrent") as (url, _):
        visit = Visit(browser, url)
        visit.write("one two three")
        word, shares = read_for_the_first_word(visit)
        assert word == visit.find(".word-read").first.inner_text()
        assert set(shares) == {"one", "two", "three"}
        visit.context.close()


def read_for_the_first_word(visit):
    """A word of the translation, and the shares of the words that were read for it."""
    visit.find(".word-read").first.hover()
    note = visit.find(".translated .note:not(:empty)")
    note.wait_for()
    word, _, told = note.inner_text().partition(" read ")
    return word, {name: float(share) for name, share in re.findall(r"(\w+) ([\d.]+) %", told)}


# ---- files


def test_files_are_dropped_and_odd_names_are_text(visit, tmp_path):
    visit.choose("images")
    content = list(a_file("images").read_bytes())
    dropped = visit.page.evaluate_handle(
        "([name, bytes]) => { const all = new DataTransfer();"
        "all.items.add(new File([new Uint8Array(bytes)], name)); return all; }",
        [ODD, content],
    )
    visit.find(".result").dispatch_event("drop", {"dataTransfer": dropped})
    visit.answer()
    assert ODD in visit.find(".note").first.inner_text()
    assert visit.find(".preview img").get_attribute("alt") == f"The image {ODD}"
    assert visit.page.evaluate("document.querySelectorAll('img').length") == 1
    with (tmp_path / "large.png").open("wb") as large:
        large.truncate(40_000_000)
    visit.give(tmp_path / "large.png")
    assert visit.problem() == "large.png has 40 MB; this server takes up to 33 MB."
    visit.give({"name": "a.exe", "mimeType": "x/y", "buffer": b"x"})
    assert visit.problem().startswith("a.exe is no image that this model reads: .jpg, ")


def test_a_damaged_file_is_an_error_and_the_next_one_is_read(visit):
    visit.choose("series")
    visit.give({"name": "a.csv", "mimeType": "text/csv", "buffer": b"nothing\nhere\n"})
    assert "a.csv" in visit.problem()
    visit.problems.clear()  # the browser reports every status of 400
    visit.give(a_file("series"))
    visit.answer().locator("svg").first.wait_for()
    assert visit.find(".problem:not(:empty)").count() == 0


def test_what_the_microphone_hears_is_written_down(visit, server, monkeypatch):
    visit.choose("speech")
    engine, heard = server[1].models["speech"].engine, []
    submit = engine.submit

    def listening(asks):
        heard.append(Path(asks[0].input).read_bytes()[:12])
        return submit(asks)

    monkeypatch.setattr(engine, "submit", listening)
    visit.page.get_by_role("button", name="Record", exact=True).click()
    stop = visit.page.get_by_role("button", name="Stop recording")
    stop.wait_for()
    visit.page.wait_for_timeout(700)
    stop.click()
    visit.answer()
    assert "recording.wav" in visit.find(".note").first.inner_text()
    assert heard[0].startswith(b"RIFF")
    assert heard[0].endswith(b"WAVE")
    assert visit.page.evaluate("document.querySelector('.preview audio').duration") > 0.3


# ---- what goes wrong


def test_nothing_typed_is_lost(visit, server):
    visit.choose("answers")
    visit.write("who <sees>")
    visit.send()
    assert visit.problem() == "Write a passage first."
    visit.write("the cat 🐈 sees a dog .", 1)
    visit.choose("labels")
    visit.write("a bird")
    visit.choose("answers")
    assert visit.find("textarea").first.input_value() == "who <sees>"
    assert visit.find("textarea").nth(1).input_value() == "the cat 🐈 sees a dog ."
    visit.send()
    assert visit.answer().locator(".passage").inner_text() == "the cat 🐈 sees a dog .", "places count characters"
    visit.choose("labels")
    assert visit.find("textarea").input_value() == "a bird"
    visit.page.route("**/v1/predict", lambda route: route.abort())
    visit.send()
    assert visit.problem().startswith("The server cannot be reached")
    assert visit.find("textarea").input_value() == "a bird"
    visit.problems.clear()


def test_who_comes_too_often_is_told_when_to_try_again(visit):
    visit.choose("labels")
    visit.page.route(
        "**/v1/predict", lambda route: route.fulfill(status=429, headers={"Retry-After": "3"}, json={"error": {}})
    )
    visit.write("a bird")
    visit.send()
    assert visit.problem() == "The server is busy; try again in 3 seconds."
    visit.page.unroute("**/v1/predict")
    visit.send()
    visit.answer()
    assert visit.find(".problem:not(:empty)").count() == 0
    visit.problems.clear()


def test_a_refusal_is_one_line(browser):
    with serving("labels", limits=Limits(text=10)) as (url, _):
        visit = Visit(browser, url)
        assert not visit.page.is_visible("#rail"), "there is nothing to choose"
        visit.write("the cat sees a dog .")
        visit.send()
        assert visit.problem() == "Input has 20 characters; allowed are up to 10."
        visit.context.close()


def test_a_key_is_asked_for_and_kept_in_the_tab(browser):
    with serving("labels", keys=("right",)) as (url, _):
        visit = Visit(browser, url)
        assert visit.page.is_visible("#key-form")
        assert visit.page.evaluate("document.activeElement.id") == "key"
        for wrong in ("wrong", "schlüssel"):
            visit.page.fill("#key", wrong)
            visit.page.keyboard.press("Enter")
            visit.page.get_by_text("This key is not known here.").wait_for()
        visit.page.fill("#key", "right")
        visit.page.keyboard.press("Enter")
        visit.find("textarea").wait_for()
        assert not visit.page.is_visible("#key-form")
        visit.page.reload()
        visit.ready()
        visit.write("the cat")
        visit.send()
        visit.answer()
        assert visit.looked_at().locator("#read").inner_text() == "the cat"
        visit.context.close()
        other = Visit(browser, url)
        assert other.page.is_visible("#key-form"), "another visitor has none"
        other.context.close()


# ---- how it looks, and without a mouse


def test_nothing_is_wider_than_a_phone(browser, url):
    visit = Visit(browser, url, viewport={"width": 400, "height": 800}, has_touch=True)
    wide = "[...document.querySelectorAll('.panel *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    for name in (*TASKS, "chatting"):
        visit.choose(name)
        if name != "chatting":
            ask(visit, name)
            visit.answer()
        beyond = visit.page.evaluate(f"{wide}.filter(e => !e.closest('.scroll')).map(e => e.outerHTML.slice(0, 80))")
        assert beyond == [], name
        assert visit.fits(), name
    visit.choose("labels")
    assert visit.looked_at().locator("html").evaluate("root => root.scrollWidth <= innerWidth")
    visit.context.close()


def test_light_and_dark(browser, url):
    def paper(page):
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    visit = Visit(browser, url, "labels", color_scheme="dark")
    assert paper(visit.page) == "rgb(19, 21, 25)"
    ask(visit, "labels")
    visit.answer()
    frame = visit.looked_at()
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    visit.page.click("#theme")
    assert paper(visit.page) == "rgb(253, 253, 251)"
    assert visit.page.get_attribute("#theme", "aria-label") == "Switch to dark colours"
    visit.page.reload()
    visit.ready()
    assert paper(visit.page) == "rgb(253, 253, 251)", "the choice outlives a reload"
    ask(visit, "labels")
    visit.answer()
    assert visit.looked_at().locator("html").get_attribute("data-theme") == "light"
    visit.context.close()


def test_colours_can_be_read():
    text, _ = document()
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", text))
    for number in (0, 1):
        colours = {name: _luminance(both.split(", ")[number]) for name, both in pairs.items()}
        for front in ("ink", "quiet", "accent", "wrong"):
            for back in ("paper", "sheet", "wash"):
                assert _contrast(colours[front], colours[back]) >= 4.5, (front, back, number)
        assert _contrast(colours["on-accent"], colours["accent"]) >= 4.5


def _luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_by_keyboard_alone(visit):
    reached = []
    for _ in range(8):
        visit.page.keyboard.press("Tab")
        reached.append(visit.page.evaluate("document.activeElement.name || document.activeElement.textContent"))
        if reached[-1] == "model":
            visit.page.keyboard.press("ArrowDown")
        if reached[-1] == "text":
            break
    assert reached == ["To the model", "Dark", "model", "text"]
    assert visit.page.url.endswith("#language"), "the arrow has chosen the next one"
    assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    visit.page.keyboard.type("the cat")
    visit.page.keyboard.press("Control+Enter")
    visit.answer()
    for _ in range(10):
        visit.page.keyboard.press("Tab")
        if visit.page.evaluate("document.activeElement.textContent") == "What did it look at?":
            break
    visit.page.keyboard.press("Enter")
    visit.page.frame_locator(".panel:visible .stage iframe").locator("#read").wait_for()


def test_every_control_has_a_name_and_there_are_landmarks(visit):
    for model in (*TASKS, "chatting"):
        visit.choose(model)
    unnamed = visit.page.evaluate(
        "[...document.querySelectorAll('input, textarea, select, button, audio, iframe')].filter(e =>"
        "!(e.labels?.length || e.getAttribute('aria-label') || e.title || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert unnamed == []
    for landmark in ("header", "nav", "main"):
        assert visit.page.locator(landmark).count() == 1
    ids = visit.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    live = visit.page.locator(".result").evaluate_all("all => all.map(e => e.getAttribute('aria-live'))")
    assert set(live) == {"polite"}


# ---- what it is made of


def test_the_page_is_one_document_that_runs_its_own_script_alone(url):
    with urlopen(url, timeout=10) as answer:
        policy, text = answer.headers["Content-Security-Policy"], answer.read().decode()
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"(src|href)=\"(?!#|data:,)", text)
    assert "innerHTML" not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    with urlopen(f"{url}/frame", timeout=10) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")


def test_markup_that_got_into_the_page_does_nothing(visit):
    visit.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=\"/x\" onerror=\"alert(1)\">')")
    visit.page.wait_for_timeout(100)
    assert visit.problems, "the browser reports what it refused"
    assert not any(one == "1" for one in visit.problems)
    visit.problems.clear()


def test_cards_say_what_a_form_needs(url):
    with urlopen(f"{url}/v1/models", timeout=10) as answer:
        cards = {one["id"]: one for one in json.load(answer)["data"]}
    assert cards["language"]["abilities"] == ["continue"]
    assert cards["chatting"]["chat"]
    assert not cards["language"]["chat"]
    assert cards["answers"]["parts"] == ["question", "passage"]
    assert cards["answers"]["example"] == "Who wrote it?\tAda wrote it."
    assert cards["translation"]["languages"] == ["en", "de"]
    assert cards["translation"]["decode"]["max_length"] == 12
    assert cards["labels"]["decode"] == {}
    assert not cards["words"]["looks"]
    assert cards["captions"]["target"]
    assert cards["images"]["parameters"] > 1000
    assert ".png" in cards["images"]["suffixes"]


def test_the_viewer_reaches_nothing(browser, url):
    visit = Visit(browser, url, "labels")
    ask(visit, "labels")
    visit.answer()
    visit.looked_at()
    frame = next(one for one in visit.page.frames if one != visit.page.main_frame)
    assert frame.evaluate("() => origin") == "null"
    assert frame.evaluate("url => fetch(url).then(() => 'reached', () => 'refused')", f"{url}/live") == "refused"
    assert frame.evaluate("() => { try { return parent.document.title } catch { return 'refused' } }") == "refused"
    inline = "() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1';"
    assert frame.evaluate(f"{inline} document.body.append(one); return window.ran ?? 'refused'; }}") == "refused"
    visit.context.close()
