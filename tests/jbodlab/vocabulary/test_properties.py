from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.vocabulary import properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a : 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t1", {"a": "1"}),
        ("   a=1  ", {"a": "1  "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("# a=1\n! b=2\n   # c=3\nd=4\n\n", {"d": "4"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=one\\\n  # two", {"a": "one# two"}),
        ("a=\\\\\nb=2", {"a": "\\", "b": "2"}),
        ("a=end\\", {"a": "end"}),
        ("a\\ b\\=c\\:d=1", {"a b=c:d": "1"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e9\\u0041", {"a": "éA"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("log.dirs=/d1, /d2", {"log.dirs": "/d1, /d2"}),
    ],
)
def test_text_is_read_as_java_reads_it(text, expected):
    assert properties.parse(text) == expected


def test_malformed_unicode_escape_is_an_error():
    with pytest.raises(ValueError, match="malformed"):
        properties.parse("a=\\u00g1")


def test_comments_come_first_and_special_characters_are_escaped():
    text = properties.render({"a b": " c:d", "e": "f"}, ["", "Thu Oct 10"])

    assert text == "#\n#Thu Oct 10\na\\ b=\\ c\\:d\ne=f\n"


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_rendered_is_read_back(values):
    assert properties.parse(properties.render(values)) == values
