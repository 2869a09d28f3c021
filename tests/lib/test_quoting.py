"""A word that is quoted comes back as it was, and as one."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workcell import quoting

PAIRS = [
    (b"k=", b"k="), (b"k=~/x", rb"k=\~/x"), (b"k=a:~/b", rb"k=a:\~/b"), (b"a~", b"a~"), (b"#a", rb"\#a"), (b"~a", rb"\~a"),
    (b"k=#a", b"k=#a"), (b"k=a,b", rb"k=a\,b"), (b"k=!a", rb"k=\!a"), (b"k=a\\b", rb"k=a\\b"), (b"k=it's", rb"k=it\'s"),
    (b"k=a\x1b[0m", rb"$'k=a\E[0m'"), (b"k=\x011", rb"$'k=\0011'"), (b"k=\x7f", rb"$'k=\177'"), (b"", b"''"),
    ("argv=café, it's ~/x".encode(), rb"$'argv=caf\303\251, it\'s ~/x'"), (b"k=a b", rb"k=a\ b"),
    (b"k=\xff", rb"$'k=\377'"), (b"k=\a\b\t\n\v\f\r", rb"$'k=\a\b\t\n\v\f\r'"), (b'k="$`', rb"k=\"\$\`"),
]  # fmt: skip

words = st.lists(st.binary(max_size=30), max_size=6)


@pytest.mark.parametrize("word,quoted", PAIRS)
def test_known_words_are_quoted_as_bash_does_and_come_back(word, quoted):
    assert quoting.quote(word) == quoted
    assert quoting.tokenize(quoted) == [word]


@given(words)
def test_any_words_come_back_as_they_were_and_as_many(given_words):  # J09
    line = b" ".join(map(quoting.quote, given_words))
    assert quoting.tokenize(line + b" ") == given_words
    assert b"\n" not in line and b"\0" not in line and line.isascii()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda w: b"\0" not in w), min_size=1, max_size=40))
def test_bash_reads_our_quoting_and_writes_the_same(given_words):
    environment = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    ours = b"\n".join(map(quoting.quote, given_words))
    done = subprocess.run(["bash", "-c", r'printf "%q\n" "$@"', "bash", *given_words], env=environment, stdout=-1, check=True)
    assert done.stdout == ours + b"\n"
    script = b"printf '%s\\0' " + b" ".join(map(quoting.quote, given_words))
    done = subprocess.run(["bash"], input=script, env=environment, stdout=-1, check=True)
    assert done.stdout.split(b"\0")[:-1] == given_words


@given(st.lists(st.sampled_from([b"\\", b" ", b"a", b"=", b"\t", b"\0", b"\1", b"$", b","]), max_size=20).map(b"".join))
def test_the_short_way_for_lines_with_backslashes_gives_what_the_long_way_gives(line):
    """A quote anywhere makes it the long way; two of them are an empty word."""
    separator = b"x " if line.endswith(b"\\") else b" "
    assert quoting.tokenize(line + separator) + [b""] == quoting.tokenize(line + separator + b"''")


@given(st.binary(max_size=80))
def test_any_bytes_are_taken_apart_or_refused(line):
    try:
        tokens = quoting.tokenize(line)
    except quoting.QuotingError as error:
        tokens = error.tokens
    assert all(isinstance(token, bytes) for token in tokens)
    assert all(isinstance(token, bytes) for token in quoting.tokenize_percent(line))


@pytest.mark.parametrize(
    "line,tokens",
    [
        (b"a\tb  c", [b"a", b"b", b"c"]),
        (rb"a\ b c", [b"a b", b"c"]),
        (b"'a b'", [b"'a", b"b'"]),  # nothing else is quoting
        (b'"a b"', [b'"a', b'b"']),
        (rb"x$'a b\101\x'y''z", [b"xa bAxyz"]),
        (b"'' a", [b"", b"a"]),
        (b"$''", [b""]),
        (rb"$'\400'", [b"\0"]),
        (rb"$'\e\E\12'", [b"\x1b\x1b12"]),
        (b"a\\", [b"a\\"]),
        (b"a\rb\x0bc", [b"a\rb\x0bc"]),
        (b"$x $", [b"$x", b"$"]),
    ],
)
def test_the_rules_of_the_tokenizer(line, tokens):
    assert quoting.tokenize(line) == tokens


def test_quoting_that_never_closes_is_an_error_that_keeps_what_was_complete():
    with pytest.raises(quoting.QuotingError) as caught:
        quoting.tokenize(b"a=1 b=2 $'c=3 d=4")
    assert caught.value.tokens == [b"a=1", b"b=2"]


def test_the_other_encoding_parts_at_any_blank_and_decodes_two_keys():
    line = "workspace=/a%20b\u2003other=%20 workspace_origin=%zz%41".encode()
    assert quoting.tokenize_percent(line) == [b"workspace=/a b", b"other=%20", b"workspace_origin=%zzA"]
    assert quoting.tokenizer(" apple-container ") is quoting.tokenize_percent
    assert quoting.tokenizer("colima") is quoting.tokenize


def test_trim_takes_blanks_outside_ascii_but_no_separators_of_python():
    assert quoting.trim("\u3000\x85 a b \u2028\r\n".encode()) == b"a b"
    assert quoting.trim(b"\x1ca\x1f") == b"\x1ca\x1f"
    assert quoting.trim(b"\xff a \xa0") == b"\xff a \xa0"
