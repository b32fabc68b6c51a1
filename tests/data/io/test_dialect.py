"""Tables of strangers: separators, quotes, headers, decimal commas, nested JSON, and which columns are meant."""

import pytest

from regard.data.io.columns import flat, flat_names, is_known_name, match_columns
from regard.data.io.dialect import Dialect, sniff_dialect, sniffed, split_rows
from regard.data.io.numbers import decimal_in, decimal_of, parse_number, parse_numbers, thousands_in
from regard.errors import DataError

LONG = "a rather long text, with commas, as people write them"

DIALECTS = {  # text: delimiter, quoted, header, decimal, thousands
    "": (",", True, True, ".", ""),
    "word": (",", True, True, ".", ""),
    "text,label": (",", True, True, ".", ""),
    "text;label": (";", True, True, ".", ""),
    "1;2": (";", True, False, ".", ""),
    "text,label\ngood,1\nbad,0": (",", True, True, ".", ""),
    "text\tlabel\ngood\t1": ("\t", False, True, ".", ""),
    "a|b|c\n1|2|3\n4|5|6": ("|", False, True, ".", ""),
    "x;y\n1,5;2,25\n3,5;4": (";", True, True, ",", ""),
    "1,5;2,5\n3,5;4,5": (";", True, False, ",", ""),
    "Datum;Umsatz\n31.12.2020;1.234,56\n01.01.2021;987,00": (";", True, True, ",", "."),
    'date,sales\n2020-12-31,"1,234.56"\n2021-01-01,"2,000.00"': (",", True, True, ".", ","),
    "n;v\na;1 234,5\nb;12 345,5": (";", True, True, ",", " "),
    "n,v\na,1'234.5\nb,2.5": (",", True, True, ".", "'"),
    "n;v\na;1,234\nb;2,345": (";", True, True, ",", ""),
    "n\tv\na\t1,234\nb\t2,345": ("\t", False, True, ".", ""),
    "n;v\na;1.5\nb;2.5": (";", True, True, ".", ""),
    'text,label\n"one, two, three",1\n"four; five",0': (",", True, True, ".", ""),
    f"text;label\n{LONG};1\n{LONG}, and more;0": (";", True, True, ".", ""),
    'text,label\n"two\nlines, here",1\n"a ""quote""",0': (",", True, True, ".", ""),
    f"en\tde\nA dog.\tEin Hund.\n{LONG}\t{LONG}": ("\t", False, True, ".", ""),
    '"Hello," he said.\tHallo.\n"Who?"\tWer?': ("\t", False, False, ".", ""),
    'a\tb\n"x\ty"\t1': ("\t", True, True, ".", ""),
    'id\tword\n1\t"x"\n2\t"y"': ("\t", True, True, ".", ""),
    "dog\tHund\ncat\tKatze": ("\t", False, False, ".", ""),
    "dog,Hund\ncat,Katze": (",", True, True, ".", ""),
    f"kind,words\nx,{LONG.replace(',', '')}\ny,{LONG.replace(',', '')}": (",", True, True, ".", ""),
    f'"{LONG}",pos\n"{LONG} too",neg': (",", True, False, ".", ""),
    "good,pos\nbad,neg\nfine,pos": (",", True, False, ".", ""),
    "a,b,c\n1,2,3\n4,5\n6,7,8\n9,10,11,12\n1,2,3": (",", True, True, ".", ""),
    "sep=;\na;b\n1;2": (";", True, True, ".", ""),
    "sep=\t\na\tb\n1\t2": ("\t", False, True, ".", ""),
    ",x,y\n0,1,2\n1,3,4": (",", True, True, ".", ""),
    "x,x\n1,2": (",", True, True, ".", ""),
    "2020-01-01,5\n2020-01-02,6": (",", True, False, ".", ""),
    "zeit,wert\n08:00,5\n09:00,6": (",", True, True, ".", ""),
    "😀;👍\n1;2\n3;4": (";", True, True, ".", ""),
    "word " * 10_000 + ";1\nshort;0\nother;1": (";", True, False, ".", ""),
    "Once upon a time, there was\na king; he had, as kings have, a crown\nand, of course, a queen": (
        ",",
        True,
        True,
        ".",
        "",
    ),
}


@pytest.mark.parametrize("text", DIALECTS, ids=lambda text: repr(text)[:40])
def test_dialects(text):
    found = sniff_dialect(text.split("\n") if text else [])
    assert (found.delimiter, found.quoted, found.header, found.decimal, found.thousands) == DIALECTS[text]
    assert found.skipped == text.startswith("sep=")


def test_what_is_given_is_believed():
    assert sniff_dialect(["a,b;c", "1,2;3"], delimiter=",", header=False) == Dialect(",", header=False)


def test_a_sample_may_end_within_quotes():
    lines = ["text,label", *["fine,1"] * 198, '"it goes on,', "and on, and on", 'and on",0']
    dialect, again = sniffed(iter(lines))
    assert dialect.delimiter == ","
    assert list(split_rows(again, dialect, name="f"))[-1] == (200, ["it goes on,\nand on, and on\nand on", "0"])


ROWS = {  # text: rows with their lines
    "": [],
    "a;b": [(1, ["a", "b"])],
    "a;b\n\n1;2": [(1, ["a", "b"]), (2, []), (3, ["1", "2"])],
    'a;b\n"x;\ny";"say ""hi"""\n3;4': [(1, ["a", "b"]), (2, ["x;\ny", 'say "hi"']), (4, ["3", "4"])],
    "a;b\n1\n1;2;3": [(1, ["a", "b"]), (2, ["1"]), (3, ["1", "2", "3"])],
    "sep=;\na;b\n1;2": [(2, ["a", "b"]), (3, ["1", "2"])],
    '"Who?"\tWer?\n"Hello," he said.\tHallo.': [(1, ['"Who?"', "Wer?"]), (2, ['"Hello," he said.', "Hallo."])],
}


@pytest.mark.parametrize("text", ROWS, ids=repr)
def test_rows(text):
    lines = text.split("\n") if text else []
    assert list(split_rows(lines, sniff_dialect(lines), name="f.csv")) == ROWS[text]


@pytest.mark.parametrize(
    ("lines", "where"), [(['a,"b', "c"], ":1"), (["a,b", "1,2", '"x" y,2'], ":3"), (["a,b", '"\n",1', '1,"2'], ":4")]
)
def test_a_quote_left_open_is_named_by_its_line(lines, where):
    lines = "\n".join(lines).split("\n")
    with pytest.raises(DataError, match=f"f.csv{where}: not a row of the table") as caught:
        list(split_rows(lines, Dialect(","), name="f.csv"))
    assert "write it twice" in caught.value.hint


NUMBERS = {  # text: the only decimal mark it can have, its value with a point, with a comma, between thousands
    "7": (None, 7.0, 7.0, ""),
    "-3": (None, -3.0, -3.0, ""),
    "−3": (None, -3.0, -3.0, ""),
    "+3": (None, 3.0, 3.0, ""),
    "5-": (None, -5.0, -5.0, ""),
    "1.5": (".", 1.5, None, ""),
    "1,5": (",", None, 1.5, ""),
    "0.123": (".", 0.123, None, ""),
    "0,123": (",", None, 0.123, ""),
    "1.234": (None, 1.234, 1234.0, ""),
    "1,234": (None, 1234.0, 1.234, ""),
    "1234.567": (".", 1234.567, None, ""),
    "1.234,56": (",", None, 1234.56, "."),
    "1,234.56": (".", 1234.56, None, ","),
    "-1.234.567": (",", None, -1234567.0, "."),
    "1,234,567": (".", 1234567.0, None, ","),
    "1 234,5": (",", None, 1234.5, " "),
    "1\u202f234,5": (",", None, 1234.5, "\u202f"),
    "1'234.5": (".", 1234.5, None, "'"),
    "1 234": (None, 1234.0, 1234.0, ""),
    "12 %": (None, 12.0, 12.0, ""),
    "1.234,50 €": (",", None, 1234.5, "."),
    "$1,234.50": (".", 1234.5, None, ","),
    "-$5.5": (".", -5.5, None, ""),
    " 2.5 ": (".", 2.5, None, ""),
    "1e-3": (None, 0.001, 0.001, ""),
    "1,5E3": (",", None, 1500.0, ""),
    ".5": (".", 0.5, None, ""),
    "5.": (".", 5.0, None, ""),
    **dict.fromkeys(
        [
            "",
            "-",
            ".",
            "x",
            "nan",
            "inf",
            "1.2.3",
            "31.12.2020",
            "10.0.0.1",
            "1..2",
            "--1",
            "-1-",
            "1 2",
            "1,2,3",
            "12:30",
        ],
        (None, None, None, ""),
    ),
}


@pytest.mark.parametrize("text", NUMBERS, ids=repr)
def test_numbers(text):
    values = (decimal_in(text), parse_number(text), parse_number(text, decimal=","), thousands_in(text))
    assert values == NUMBERS[text]


def test_a_column_decides_its_decimal_mark():
    assert decimal_of(["1.234", "7", "1,5"]) == ","
    assert decimal_of(["1.234", "7"], default=",") == ","
    assert decimal_of(["1,5", "1.5"], default=".") == "."
    assert parse_numbers(["48.137", "11.5", "x"], default=",") == [48.137, 11.5, None]  # a column of its own kind
    assert parse_numbers(["1.234", "12,5"]) == [1234.0, 12.5]


TEXT, PAIR, SERIES = ("text", "label"), ("source", "target"), ("ds", "y")
COLUMNS = [  # header, roles, what is meant
    ("text,label", TEXT, "text,label"),
    ("label,text", TEXT, "text,label"),
    ("Review,stars", TEXT, "Review,stars"),
    ("id,sentence,sentiment", TEXT, "sentence,sentiment"),
    ("Text,Kategorie", TEXT, "Text,Kategorie"),
    ("TWEET,CLASS", TEXT, "TWEET,CLASS"),
    ("title,body,rating", TEXT, "body,rating"),
    ("reviewText,overall", TEXT, "reviewText,overall"),
    ("text,label,label_text", TEXT, "text,label"),
    ("comment,target,comment_id", TEXT, "comment,target"),
    (" content , category", TEXT, " content , category"),
    ("source,target", PAIR, "source,target"),
    ("id,src,tgt", PAIR, "src,tgt"),
    ("en,de", PAIR, "en,de"),
    ("id,de,en,url", PAIR, "de,en"),
    ("en,id", PAIR, "en,id"),
    ("Deutsch,Englisch", PAIR, "Deutsch,Englisch"),
    ("pt_BR,zh-CN", PAIR, "pt_BR,zh-CN"),
    ("translation.en,translation.de", PAIR, "translation.en,translation.de"),
    ("source_text,target_text", PAIR, "source_text,target_text"),
    ("original,translation", PAIR, "original,translation"),
    ("file_name,text", ("image", "caption"), "file_name,text"),
    ("image_name,comment_number,comment", ("image", "caption"), "image_name,comment"),
    ("Bild,Beschreibung", ("image", "caption"), "Bild,Beschreibung"),
    ("client_id,path,sentence,up_votes,age", ("audio", "text"), "path,sentence"),
    ("audio_filepath,duration,text", ("audio", "text"), "audio_filepath,text"),
    ("wav,transcript", ("audio", "text"), "wav,transcript"),
    ("ds,y,unique_id", SERIES, "ds,y,unique_id"),
    ("Datum,Umsatz", SERIES, "Datum,Umsatz"),
    ("timestamp,load", SERIES, "timestamp,load"),
    ("Zeit,Temperatur innen", SERIES, "Zeit,Temperatur innen"),
    ("unique_id,ds,y,price", SERIES, "ds,y,unique_id"),
    ("Date,ticker,Close,Open", SERIES, "Date,Close,ticker"),
]


@pytest.mark.parametrize(("header", "roles", "meant"), COLUMNS)
def test_columns_are_found_by_their_names(header, roles, meant):
    optional = ("unique_id",) if roles == SERIES else ()
    found = match_columns(header.split(","), roles, where="f:1", optional=optional)
    assert list(found.values()) == meant.split(",")
    assert list(found) == [*roles, *optional][: len(found)]


UNCLEAR = [  # header, roles, message, hint
    ("review,comment,stars", TEXT, "several columns could be the text: review, comment",
     'say which: data.text="review" data.label="stars"'),
    ("text,stars,rating", TEXT, "several columns could be the label: stars, rating",
     'say which: data.text="text" data.label="stars"'),
    ("a,b,c", TEXT, "no column looks like the text or the label; it has: a, b, c",
     'say which: data.text="a" data.label="b"'),
    ("id,text", TEXT, "no column looks like the label; it has: id, text", "a table with a column for each is needed"),
    ("en,de,fr", PAIR, "several columns could be the source: en, de, fr; several columns could be the target",
     'say which: data.source="en" data.target="de"'),
    ('text,the "first",b', TEXT, "no column looks like the label", r'data.text="text" data.label="the \"first\""'),
    ("text,text", TEXT, "several columns could be the text: text, text", "a table with a column"),
    ("date,store,item,sales", SERIES, "several columns could be the unique_id: store, item",
     'say which: data.ds="date" data.y="sales" data.unique_id="store"'),
    ("only", TEXT, "no column looks like the text or the label; it has: only", "a table with a column for each"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "roles", "message", "hint"), UNCLEAR)
def test_what_is_unclear_is_said_with_settings_to_type(header, roles, message, hint):
    with pytest.raises(DataError) as caught:
        match_columns(header.split(","), roles, where="f.csv:1", optional=("unique_id",) if roles == SERIES else ())
    assert str(caught.value).startswith(f"f.csv:1: {message}")
    assert hint in caught.value.hint


def test_the_callers_settings_are_named():
    with pytest.raises(DataError) as caught:
        match_columns(["a", "b", "c"], TEXT, where="f", keys={"text": "data.columns.text", "label": "--label"})
    assert caught.value.hint == 'say which: data.columns.text="a" --label="b"'


def test_nested_objects_become_columns():
    record = {"id": 1, "translation": {"en": "a", "de": {"x": "b"}}, "tags": [{"no": 1}], "none": {}, "a.b": 5}
    assert flat(record) == {
        "id": 1,
        "translation.en": "a",
        "translation.de.x": "b",
        "tags": [{"no": 1}],
        "none": {},
        "a.b": 5,
    }
    assert flat({"a": {"b": 1}, "a.b": 2}) == {"a.b": 2}
    assert flat_names([{"a": {"b": 1}}, {"c": 1, "a": {"b": 2}}]) == ["a.b", "c"]
    names = flat_names([{"translation": {"en": "a", "de": "b"}}])
    assert match_columns(names, PAIR, where="f") == {"source": "translation.en", "target": "translation.de"}
    deep = {"x": 1}
    for _ in range(2000):
        deep = {"a": deep}
    assert len(flat(deep)) == 1


def test_known_names():
    assert all(map(is_known_name, ["Text", "label", "id", "de", "Datum", "unique_id"]))
    assert not any(map(is_known_name, ["", "7", "dog", "Ein Hund."]))
