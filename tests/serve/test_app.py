"""The server through its own clients: OpenAI's, LibreTranslate's, and plain HTTP."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient

import regard
from http_server import RUNS, chat_model, serving
from regard.cli.main import app
from regard.errors import RegardError
from regard.serve.app import create_app
from regard.serve.keys import Keys
from regard.serve.limits import Limits
from regard.serve.tickets import Ask

DATA = RUNS.parent / "data"
TASKS = ("translation", "language", "masked", "labels", "answers", "images", "captions", "speech", "series", "words")
ENDLESS = {"max_length": 4000, "min_length": 3999}


@pytest.fixture(scope="module")
def chatting(tmp_path_factory):
    """A language model with a chat template beside it."""
    return chat_model(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def server(chatting):
    with serving(*TASKS, places={"chatting": chatting}) as running:
        yield running


@pytest.fixture(scope="module")
def url(server):
    return server[0]


@pytest.fixture(scope="module")
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=30)


@pytest.fixture(scope="module")
def alone():
    return {name: regard.load(RUNS / name, "cpu") for name in TASKS}


def post(url, path, body, *, headers=None):
    """Status, headers and the answer to a body, which is JSON unless it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = Request(url + path, data, {"Content-Type": "application/json", **(headers or {})})
    try:
        with urlopen(asked, timeout=30) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except HTTPError as problem:
        with problem:
            return problem.code, problem.headers, json.loads(problem.read())


def form(fields, files):
    """A form with files as a body and its type."""
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, (filename, content) in files.items():
        head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + b"--x--\r\n", {"Content-Type": "multipart/form-data; boundary=x"}


def a_file(folder, pattern):
    return sorted((DATA / folder).rglob(pattern))[0]


# ---- OpenAI's client


def test_models_are_listed(client):
    assert {one.id for one in client.models.list()} == {*TASKS, "chatting"}
    assert client.models.retrieve("speech").task == "speech"


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({}, {}),
        ({"temperature": 0}, {"strategy": "greedy"}),
        ({"temperature": 0.7, "seed": 5, "top_p": 0.9}, {"temperature": 0.7, "seed": 5, "top_p": 0.9}),
        ({"extra_body": {"decode": {"beam": 3}}}, {"beam": 3}),
    ],
)
def test_a_completion_is_what_predict_says(client, alone, given, ours):
    said = client.completions.create(model="language", prompt="the cat", max_tokens=20, **given)
    want = alone["language"]("the cat", max_length=20, **ours)
    assert said.choices[0].text == want.text
    assert said.choices[0].finish_reason == ("stop" if want.finished else "length")
    assert said.usage.completion_tokens == len(want.ids)


def test_several_prompts_and_samples(client, alone):
    said = client.completions.create(
        model="language", prompt=["the", "a dog"], n=3, temperature=1.0, seed=2, max_tokens=9, echo=True
    )
    want = alone["language"](["the", "a dog"], strategy="sample", n_samples=3, seed=2, max_length=9)
    texts = [one.text for prediction in want for one in (prediction, *prediction.alternatives)]
    prompts = ["the"] * 3 + ["a dog"] * 3
    assert [choice.text for choice in said.choices] == [p + t for p, t in zip(prompts, texts, strict=True)]
    assert [choice.index for choice in said.choices] == list(range(6))


@pytest.mark.parametrize("options", [{}, {"n": 2, "temperature": 1.0, "seed": 1}])
def test_a_stream_is_the_same_text_with_its_usage(client, options):
    asked = {"model": "language", "prompt": "the cat", "max_tokens": 25, **options}
    whole = client.completions.create(**asked)
    events = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    for choice in whole.choices:
        own = [one.choices[0] for one in events if one.choices and one.choices[0].index == choice.index]
        assert "".join(one.text for one in own) == choice.text
        assert own[-1].finish_reason == choice.finish_reason
    assert events[-1].usage == whole.usage


def test_stop_strings_end_a_text(client, alone):
    said = client.completions.create(model="language", prompt="the cat", max_tokens=20, stop=[" bird", " dog"])
    assert said.choices[0].text == alone["language"]("the cat", max_length=20, stop=[" bird", " dog"]).text
    streamed = client.completions.create(model="language", prompt="the cat", max_tokens=20, stop=" bird", stream=True)
    assert " bird" not in "".join(one.choices[0].text for one in streamed)


def test_a_conversation_follows_the_template(client, alone):
    messages = [{"role": "user", "content": "the"}, {"role": "user", "content": [{"type": "text", "text": "cat"}]}]
    said = client.chat.completions.create(model="chatting", messages=messages, max_tokens=12)
    assert said.choices[0].message.content == alone["language"]("the cat ", max_length=12).text
    events = client.chat.completions.create(model="chatting", messages=messages, max_completion_tokens=12, stream=True)
    pieces = [event.choices[0].delta.content or "" for event in events]
    assert "".join(pieces) == said.choices[0].message.content
    with pytest.raises(openai.BadRequestError, match="no chat template"):
        client.chat.completions.create(model="language", messages=messages)


def test_prompts_may_be_ids(client, alone):
    ids = alone["language"].writer.prompt("the cat")
    want = client.completions.create(model="language", prompt="the cat", max_tokens=20)
    for prompt in (ids, [ids]):
        assert client.completions.create(model="language", prompt=prompt, max_tokens=20).choices == want.choices
    for wrong in ([10**9], [-1], [[]], [ids, "the"], [1.5]):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="language", prompt=wrong)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="translation", prompt=ids)


def test_vectors_in_both_encodings(client, url, alone):
    want = alone["masked"].embed(["the cat sees", "a"]).tolist()
    said = client.embeddings.create(model="masked", input=["the cat sees", "a"])  # its own default is base64
    assert said.data[1].embedding == pytest.approx(alone["masked"].embed(["a"])[0].tolist(), abs=0)
    plain = client.embeddings.create(model="masked", input="the cat sees", encoding_format="float")
    assert plain.data[0].embedding == alone["masked"].embed(["the cat sees"])[0].tolist()
    _, _, raw = post(url, "/v1/embeddings", {"model": "masked", "input": "a", "encoding_format": "base64"})
    packed = base64.b64decode(raw["data"][0]["embedding"])
    assert len(struct.unpack(f"<{len(packed) // 4}f", packed)) == len(want[0])


@pytest.mark.parametrize("kind", ["json", "text", "srt", "vtt", "verbose_json"])
def test_recordings_are_written_down(client, alone, kind):
    path = a_file("speech", "*.wav")
    want = alone["speech"](str(path))
    with path.open("rb") as sound:
        said = client.audio.transcriptions.create(model="speech", file=sound, response_format=kind)
    text = said if isinstance(said, str) else said.text
    assert want.text in text
    if kind == "verbose_json":
        assert [word.word for word in said.words] == [word.word for word in want.words]
    if kind in ("srt", "vtt"):
        assert "-->" in said


def test_errors_are_those_of_the_client(client):
    with pytest.raises(openai.NotFoundError, match="did you mean 'language'"):
        client.completions.create(model="langage", prompt="the")
    with pytest.raises(openai.BadRequestError, match="max_tokens is '0'"):
        client.completions.create(model="language", prompt="the", max_tokens=0)
    with pytest.raises(openai.BadRequestError, match="is for labels") as caught:
        client.completions.create(model="labels", prompt="the")
    assert caught.value.param == "model"
    with pytest.raises(openai.BadRequestError, match="presence_penalty"):
        client.completions.create(model="language", prompt="the", presence_penalty=1.0)
    with pytest.raises(openai.BadRequestError, match="decode"):
        client.completions.create(model="language", prompt="the", extra_body={"decode": {"baem": 3}})


@pytest.mark.parametrize(
    ("name", "refused", "neutral"),
    [
        ("logprobs", [0, 3, True], [None, False]),  # 0 asks for those of the tokens that were chosen
        ("top_logprobs", [2], [None, 0]),
        ("presence_penalty", [0.5, -1], [None, 0, 0.0]),
        ("frequency_penalty", [0.5, True], [None, 0, 0.0]),
        ("logit_bias", [{"5": 1}], [None, {}]),
        ("best_of", [2], [None, 1]),
    ],
)
def test_what_cannot_be_done_is_refused_and_not_ignored(url, name, refused, neutral):
    asked = {"model": "language", "prompt": "the", "max_tokens": 2}
    for value in refused:
        status, _, said = post(url, "/v1/completions", asked | {name: value})
        assert (status, said["error"]["param"], said["error"]["code"]) == (400, name, "unsupported_parameter")
        assert "leave it out" in said["error"]["message"]
    for value in neutral:
        assert post(url, "/v1/completions", asked | {name: value})[0] == 200


def test_a_full_queue_is_429_and_the_client_tries_again():
    with serving("language", limits=Limits(queue=1)) as (url, served):
        impatient = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20)
        patient = impatient.with_options(max_retries=8)
        engine, held = served.models["language"].engine, threading.Event()
        asked = {"model": "language", "prompt": "the", "max_tokens": 3}
        busy = engine.submit([Ask("the", {"max_length": 1}, finish=lambda output: held.wait(20))])[0]
        while engine.n_waiting:
            time.sleep(0.002)
        with ThreadPoolExecutor(2) as users:
            waiting = users.submit(patient.completions.create, **asked)
            while not engine.n_waiting:
                time.sleep(0.002)
            with pytest.raises(openai.RateLimitError) as caught:
                impatient.completions.create(**asked)
            assert int(caught.value.response.headers["retry-after"]) >= 1
            again = users.submit(patient.completions.create, **asked)
            time.sleep(0.2)
            held.set()
            assert again.result(20).choices == waiting.result(20).choices
        assert busy.result(5)


# ---- LibreTranslate's client


def test_libretranslate(url, alone):
    client = LibreTranslateAPI(url)
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]
    want = [alone["translation"](line).text for line in ("one two", "three four")]
    assert client.translate("one two\n\nthree four", "en", "de") == f"{want[0]}\n\n{want[1]}"
    assert client.detect("This is a house.")[0]["language"] == "en"
    status, _, said = post(
        url, "/translate", {"q": ["one", "two"], "source": "auto", "target": "de", "alternatives": 2}
    )
    assert status == 200
    assert said["translatedText"][0] == alone["translation"]("one", beam=3, n_best=3).text
    assert said["detectedLanguage"][0]["language"] == "en"
    assert post(url, "/translate", {"q": "one", "source": "en", "target": "fr"})[::2] == (
        400,
        {"error": "en-fr is not supported; served are: en-de"},
    )
    for path in ("/health", "/frontend/settings"):
        with urlopen(url + path, timeout=10) as answer:
            assert answer.status == 200


# ---- our own


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("translation", "one two three", {"beam": 3, "n_best": 2}),
        ("language", "the cat", {"max_length": 7}),
        ("masked", "the <mask> sees a dog .", {"k": 2}),
        ("labels", "the cat sees a dog .", {}),
        ("answers", "who sees\tthe cat sees a dog .", {}),
        ("words", "cat", {"k": 2}),
    ],
)
def test_predict_is_what_the_command_line_says(url, alone, name, text, options):
    status, _, said = post(url, "/v1/predict", {"model": name, "input": [text, text], "decode": options})
    if name == "words" and status == 400:
        assert "cat" in said["error"]["message"]
        return
    assert status == 200, said
    record = json.loads(json.dumps(alone[name](text, **options).record()))
    assert said["data"] == [record, record]


@pytest.mark.parametrize(
    ("name", "folder", "pattern"),
    [
        ("images", "images", "*.png"),
        ("captions", "captions", "*.png"),
        ("speech", "speech", "*.wav"),
        ("series", "series", "hours.csv"),
    ],
)
def test_predict_takes_files_in_forms_and_in_json(url, alone, name, folder, pattern):
    path = a_file(folder, pattern)
    want = json.loads(json.dumps(alone[name](str(path)).record()))
    want |= {"image": path.name} if "image" in want else {}
    body, headers = form({"model": name}, {"file": (path.name, path.read_bytes())})
    status, _, said = post(url, "/v1/predict", body, headers=headers)
    assert (status, said["data"]) == (200, [want])
    sent = {"name": path.name, "data": base64.b64encode(path.read_bytes()).decode()}
    assert post(url, "/v1/predict", {"model": name, "input": sent})[2]["data"] == [want]


def test_paths_of_the_server_are_never_read(url):
    status, _, said = post(url, "/v1/predict", {"model": "images", "input": str(a_file("images", "*.png"))})
    assert status == 400
    assert "reads files" in said["error"]["message"]


@pytest.mark.parametrize(("name", "file"), [("images", "a.png"), ("speech", "a.wav"), ("series", "a.csv")])
def test_damaged_uploads_are_told_by_their_name(url, name, file):
    body, headers = form({"model": name}, {"file": (file, b"\x89PNG garbage \xff\x00")})
    status, _, said = post(url, "/v1/predict", body, headers=headers)
    assert status == 400
    assert "regard-serve-" not in said["error"]["message"]
    body, headers = form({"model": name}, {"file": ("a.exe", b"x")})
    assert "is no file for this model" in post(url, "/v1/predict", body, headers=headers)[2]["error"]["message"]


def test_one_bad_input_leaves_the_others(url):
    inputs = ["who\tthe cat sees a dog .", "no passage"]
    status, _, said = post(url, "/v1/predict", {"model": "answers", "input": inputs})
    assert status == 200
    assert "answer" in said["data"][0]
    assert "error" in said["data"][1]


@pytest.mark.parametrize(("form", "begins"), [("record", b"{"), ("page", b"<!"), ("picture", b"\x89PNG")])
def test_look_shows_what_was_looked_at(url, form, begins):
    asked = Request(url + "/v1/look", json.dumps({"model": "translation", "input": "one two", "format": form}).encode(),
                    {"Content-Type": "application/json"})  # fmt: skip
    with urlopen(asked, timeout=120) as answer:  # looks wait for idle time
        assert answer.read().lstrip().startswith(begins)


def test_metrics_name_models_and_nothing_of_who_asks(url):
    post(url, "/v1/predict", {"model": "translation", "input": "one secret"}, headers={"X-API-Key": "s3cret"})
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    for name in ("requests_running", "requests_waiting", "queue_seconds", "time_to_first_token_seconds",
                 "time_between_tokens_seconds", "decoded_tokens_total", "requests_total"):  # fmt: skip
        assert f"regard_{name}" in text
    assert "s3cret" not in text
    assert "127.0.0.1" not in text


def test_the_interface_is_described(url):
    with urlopen(f"{url}/openapi.json", timeout=10) as answer:
        assert {"/v1/predict", "/v1/completions", "/translate"} <= set(json.load(answer)["paths"])


# ---- pressure


def test_keys_open_every_route_but_liveness():
    with serving("translation", keys=("right", "other")) as (url, _):
        for path in ("/live", "/health"):
            assert urlopen(url + path, timeout=10).status == 200
        for path in ("/ready", "/metrics", "/v1/models", "/openapi.json", "/languages", "/frontend/settings"):
            with pytest.raises(HTTPError, match=r"40[13]") as caught:
                urlopen(url + path, timeout=10)
            caught.value.close()
        body = {"model": "translation", "input": "one"}
        assert post(url, "/v1/predict", body, headers={"Authorization": "Bearer wrong"})[0] == 401
        assert post(url, "/v1/predict", body, headers={"Authorization": "Bearer other"})[0] == 200
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0).models.list()
        assert LibreTranslateAPI(url, api_key="right").translate("one", "en", "de")
        with pytest.raises(HTTPError, match="403") as caught:
            LibreTranslateAPI(url, api_key="wrong").translate("one", "en", "de")
        caught.value.close()


def test_pages_of_a_named_site_may_ask(server):
    served = server[1]
    with TestClient(create_app(served, keys=Keys(["right"]), cors=["https://example.org"])) as browser:
        asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
        assert browser.options("/v1/predict", headers=asked).status_code == 200
        answer = browser.get("/live", headers={"Origin": "https://example.org"})
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        other = browser.get("/live", headers={"Origin": "https://example.com"})
        assert "access-control-allow-origin" not in other.headers


def test_long_bodies_are_refused_before_they_are_read():
    with serving("translation", limits=Limits(body=1000)) as (url, _):
        connection = HTTPConnection(urlparse(url).netloc, timeout=10)
        connection.putrequest("POST", "/v1/predict")
        connection.putheader("Content-Length", "1000000000")
        connection.endheaders()
        answer = connection.getresponse()  # nothing of the body was sent
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == "request_too_large"
        connection.close()
        connection = HTTPConnection(urlparse(url).netloc, timeout=10)
        connection.request("POST", "/v1/predict", iter([b"x" * 600] * 3), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})  # fmt: skip
        assert connection.getresponse().status == 413
        connection.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_rows(server, stream):
    url, served = server
    engine = served.models["language"].engine
    connection = HTTPConnection(urlparse(url).netloc, timeout=10)
    body = {"model": "language", "prompt": "the", "stream": stream, "decode": ENDLESS}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    until = time.monotonic() + 10
    while not engine.n_running:
        assert time.monotonic() < until
        time.sleep(0.002)
    if stream:
        with connection.getresponse() as answer:
            answer.read(10)
    connection.close()
    while engine.n_running:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_stream_that_is_ended_says_so():
    with serving("language") as (url, served):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20)
        events = client.completions.create(model="language", prompt="the", stream=True, extra_body={"decode": ENDLESS})
        next(events)
        threading.Thread(target=served.stop, args=(0.1,)).start()
        with pytest.raises(openai.APIError, match="stopping"):
            list(events)
        with pytest.raises(openai.InternalServerError) as caught:
            client.completions.create(model="language", prompt="the")
        assert caught.value.status_code == 503
        assert "retry-after" in caught.value.response.headers


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "model",
    "prompt",
    "input",
    "messages",
    "decode",
    "stop",
    "n",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "stream",
    "stream_options",
    "q",
    "source",
    "target",
    "format",
    "alternatives",
    "encoding_format",
    "echo",
)
PATHS = ("/v1/predict", "/v1/look", "/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/translate",
         "/detect", "/v1/audio/transcriptions")  # fmt: skip


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(data=st.data())
def test_no_body_is_a_500(url, data):
    path = data.draw(st.sampled_from(PATHS))
    body = data.draw(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6) | JSON)
    if isinstance(body, dict) and data.draw(st.booleans()):
        body["model"] = data.draw(st.sampled_from((*TASKS, "chatting")))
    connection = HTTPConnection(urlparse(url).netloc, timeout=20)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    assert status < 500, (path, body)


@pytest.mark.parametrize("body", [b"", b"{", b"[1", b"\xff\xfe", b"[" * 100_000, b'"text"', b"{}" * 3])
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/completions", "/translate"])
def test_garbage_is_400(url, path, body):
    assert post(url, path, body)[0] == 400


# ---- the command


def wait_for(url):
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            with urlopen(f"{url}/live", timeout=5):
                return
        except OSError:
            time.sleep(0.05)


def test_the_command_serves_and_ends_within_its_grace(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# for tests\nright\n")
    command = [sys.executable, "-m", "regard", "serve", f"de={RUNS / 'translation'}", str(RUNS / "language")]
    command += ["--port", "0", "--keys", str(keys), "--grace", "0.5", "--device", "cpu", "--languages", "de=en-de"]
    command += ["--queue", "3"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("serving 2 models at http://127.0.0.1:"), line
        url = line.split()[-1]
        wait_for(url)
        status, _, said = post(url, "/v1/predict", {"model": "de", "input": "one"}, headers={"X-API-Key": "right"})
        assert (status, said["task"]) == (200, "translation")
        several = {"model": "de", "input": ["one"] * 4}  # which could never wait at once
        assert post(url, "/v1/predict", several, headers={"X-API-Key": "right"})[0] == 400
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="right", max_retries=0, timeout=20)
        stream = {"model": "language", "prompt": "the", "stream": True, "extra_body": {"decode": ENDLESS}}
        events = client.completions.create(**stream)
        next(events)
        begin = time.monotonic()
        process.terminate()
        with pytest.raises(openai.APIError, match="stopping"):
            list(events)
        assert process.wait(20) == 0
        assert time.monotonic() - begin < 8
        assert process.stderr.read().endswith("stopped\n")
    finally:
        process.kill()
        process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "there is no such folder"),
        (["translation", "translation"], "two models are called 'translation'"),
        (["translation", "--keys", "nowhere"], "cannot be read"),
        (["translation", "--languages", "translation=xx"], "allowed is NAME=en-de"),
        (["translation", "--host", "256.0.0.1"], "cannot be listened at"),
    ],
)
def test_mistakes_are_told(arguments, told, monkeypatch):
    monkeypatch.chdir(RUNS)
    with pytest.raises(RegardError, match=told):
        app(["serve", *arguments, "--port", "0"], standalone_mode=False)


def test_json_that_curl_calls_a_form_is_read_as_json(server):
    with TestClient(create_app(server[1])) as browser:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        asked = '{"model": "language", "prompt": "the cat", "max_tokens": 2}'
        answers = [browser.post("/v1/completions", content=asked, headers=one) for one in (kind, {})]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json()["choices"] == answers[1].json()["choices"]
        broken = browser.post("/v1/completions", content="{bad", headers=kind)
        assert broken.status_code == 400
        assert "neither JSON nor a form" in broken.json()["error"]["message"]
