"""Chat templates: what the models' makers mean by them, and that none of them can do harm."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from http_server import RUNS
from regard.errors import CheckpointError, UsageError
from regard.serve.chat import CHARACTERS, ChatTemplate

CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{% if messages[0]['role'] == 'system' %}{% set start = messages[0]['content'] | trim %}"
    "{% set rest = messages[1:] %}{% else %}{% set start = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (start + '\n' if loop.first and start else '') "
    "+ m.content.strip() + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}"
)
HELLO = [{"role": "user", "content": "hello"}]


def test_chatml():
    assert ChatTemplate(CHATML).render(HELLO) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_llama_with_a_system_prompt():
    template = ChatTemplate(LLAMA, {"bos_token": "<s>", "eos_token": "</s>"})
    talk = [{"role": "system", "content": " Be brief. "}, *HELLO, {"role": "assistant", "content": "Hi."}, *HELLO]
    assert template.render(talk) == "<s>[INST] Be brief.\nhello [/INST] Hi.</s><s>[INST] hello [/INST]"
    with pytest.raises(UsageError, match="roles must alternate"):
        template.render([{"role": "assistant", "content": "Hi."}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{% include '/etc/passwd' %}",
        "{{ 'a' * 10000000000 }}",
        "{{ 9 ** 999999999 }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ 'a'.ljust(10000000000) }}",
        "{{ '{:9999999999}'.format(1) }}",
        "{{ 'a' | center(10000000000) }}",
        "{{ 'a' | attr('__class__') }}",
        "{% for i in range(1000000000) %}x{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}xxxxxxxxxx{% endfor %}",
        "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s = n.s.replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s = n.s | replace('a', 'aa') %}{% endfor %}",
        "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='aaaa') %}{% for i in range(60) %}{% set n.s = n.s.join([n.s, n.s]) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% if",
    ],
)
def test_what_does_harm_is_refused_soon(source):
    begin = time.monotonic()
    with pytest.raises(UsageError, match="chat template"):
        ChatTemplate(source).render(HELLO)
    assert time.monotonic() - begin < 5


def test_what_is_hidden_is_nothing():
    assert ChatTemplate("{{ raise_exception.__globals__ }}").render(HELLO) == ""


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            [
                "{{",
                "}}",
                "{%",
                "%}",
                " for m in messages ",
                " endfor ",
                " m.content ",
                "messages",
                "|",
                "trim",
                "tojson",
                "(",
                ")",
                "[0]",
                "+",
                "*",
                "**",
                "'a'",
                "999",
                "range",
                "namespace",
                "set x = ",
                "if",
                "endif",
                ".",
                "__class__",
                "~",
            ]
        ),
        max_size=25,
    )
)
def test_whatever_a_template_is_it_ends_in_a_text_or_a_refusal(pieces):
    try:
        text = ChatTemplate("".join(pieces)).render(HELLO)
    except UsageError:
        return
    assert len(text) <= CHARACTERS


def test_special_tokens_are_the_templates_never_a_messages():
    tokenizer = regard.load(RUNS / "language", "cpu").tokenizer
    template = ChatTemplate.beside(RUNS / "language", tokenizer)
    assert template is None  # and with one, it knows the tokens' names:
    template = ChatTemplate("{% for one in messages %}{{ one.content }}</s>{% endfor %}")
    end, cat = tokenizer.eos_id, tokenizer.encode("the cat")
    assert template.prompt([{"role": "user", "content": "the cat"}], tokenizer) == [*cat, end]
    spelled = template.prompt([{"role": "user", "content": "</s>"}], tokenizer)
    assert spelled.count(end) == 1
    assert spelled == [*tokenizer.encode("</s>"), end]
    with pytest.raises(UsageError, match="makes nothing"):
        ChatTemplate("").prompt(HELLO, tokenizer)


def test_templates_lie_beside_models(tmp_path):
    assert ChatTemplate.beside(tmp_path) is None
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": CHATML, "eos_token": {"content": "</s>"}})
    )
    assert ChatTemplate.beside(tmp_path) == ChatTemplate(CHATML, {"eos_token": "</s>"})
    several = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": CHATML}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert ChatTemplate.beside(tmp_path).source == CHATML
    (tmp_path / "chat_template.jinja").write_text("{{ 1 }}")
    assert ChatTemplate.beside(tmp_path).render(HELLO) == "1"
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        ChatTemplate.beside(tmp_path)
