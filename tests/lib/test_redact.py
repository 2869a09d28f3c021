"""Secrets and the home folder go, all else stays."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workcell.redact import redact

HOME = "/home/op"
TOKEN = "[REDACTED-TOKEN]"


@pytest.mark.parametrize(
    "text,expected",
    [
        ("/home/op/x", "~/x"),
        ("/home/op", "~"),
        ("at /home/op: gone", "at ~: gone"),
        ("'/home/op'", "'~'"),
        ("k=/home/op/a:/home/op/b", "k=~/a:~/b"),
        ("file:///home/op/x", "file://~/x"),
        ("/home/operator/x", "/home/operator/x"),
        ("/srv/home/op/x", "/srv/home/op/x"),  # D43: it is another folder
        ("/srv.d/x/home/op", "/srv.d/x/home/op"),
        ("/é/home/op/x", "/é/home/op/x"),
        ("", ""),
    ],
)
def test_the_home_folder_goes_where_it_is_a_path_of_its_own(text, expected):
    assert redact(text, HOME) == expected
    assert redact(text, HOME + "/") == expected
    assert redact(text, "") == text and redact(text, "/") == text


@pytest.mark.parametrize(
    "text,expected",
    [
        ("my_token: abc,def", "my_token: [REDACTED],def"),
        ('api-key="a b"', "api-key=[REDACTED]"),
        ("API_KEY = abc", "API_KEY = [REDACTED]"),
        ("sessionkey=x y", "sessionkey=[REDACTED] y"),
        ("PASSWORD='a\\'b' c", "PASSWORD=[REDACTED] c"),
        ('{"client.secret": "s", "n": 1}', '{"client.secret": [REDACTED], "n": 1}'),
        ('{\\"token\\": \\"s\\"}', '{\\"token\\": [REDACTED]}'),
        ("a=token=b c", "a=token=[REDACTED] c"),
        ("url?x=1&token=abc&y=2", "url?x=1&token=[REDACTED]"),
        ('password="open', "password=[REDACTED]"),  # D43
        ("password='open and more", "password=[REDACTED]"),
        ('\\"password\\": \\"open', '\\"password\\": [REDACTED]'),
        ("credential:", "credential:"),
        ("Authorization: bearer abc.def==", "Authorization: Bearer [REDACTED]"),
    ],
)
def test_the_value_of_a_named_secret_goes_and_its_name_stays(text, expected):
    assert redact(text, HOME) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ghp_" + "a" * 20, "github_pat_" + "A_1" * 10, "xoxb-1234567890", "xapp-1234567890", "xoxe.1234567890",
        "AKIAABCDEFGHIJKLMNOP", "ASIAABCDEFGHIJKLMNOP", "sk-" + "a1_-" * 6, "AIza" + "x" * 20, "ya29.x",
    ],
)  # fmt: skip
def test_tokens_go_wherever_they_begin(text):
    for before in ("", " ", '"', "(", "/", "\n", "é", "\\n", "\\t", "%20", "x=", "_"):
        assert redact(before + text + " end", HOME) == before + TOKEN + " end"


def test_a_web_token_and_a_private_key_go():
    assert redact("x eyJh.eyJi. y") == "x [REDACTED-JWT] y"
    key = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----"
    assert redact(f"a {key} b {key} c") == "a [REDACTED-PRIVATE-KEY] b [REDACTED-PRIVATE-KEY] c"
    assert redact("a -----BEGIN PRIVATE KEY-----\nAAAA") == "a [REDACTED-PRIVATE-KEY]"


@pytest.mark.parametrize(
    "text",
    [
        "task-aaaaaaaaaaaaaaaaaaaaaaaaaaaa",  # D43: no token
        "risk-" + "a" * 30,
        "XAKIAABCDEFGHIJKLMNOP",
        "AKIAABCDEFGHIJKLMNOPQ",
        "auth_status=ok",
        "public_key=abc",
        "cache_key: abc",
        "5f1d7a84db00d2fce00b31a7fc73224f987d3d5b",
        "record_digest=" + "0f" * 32,
        "20260302T081500Z-1f3a9c20",
        "123e4567-e89b-12d3-a456-426614174000",
        "/srv/work/" + "deep/" * 60,
        "-----BEGIN PUBLIC KEY-----",
        "forbearer abc",
    ],
)
def test_what_only_looks_like_a_secret_stays(text):  # K06
    assert redact(text, HOME) == text


@given(st.text(st.sampled_from("tokensecrpawd=:'\"\\ \n/-_.eyJghs123"), max_size=60), st.text(max_size=10))
def test_any_text_is_redacted_without_a_fault(text, home):
    assert isinstance(redact(text, home), str)


PIECES = [
    "a", 'token="', 'token=\\"', "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "a ", "token ", "token='x token=\"y ", "eyJ",
    "eyJa.", "sk-", "bearer ", "secret", "a=token", "xoxb-", "-", "token=\\", "ya29.", "/home/op",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_time_grows_with_the_text_and_not_faster(piece):
    def cost_s(size):
        text = piece * (size // len(piece))
        best = 9.0
        for _ in range(3):
            begin = time.process_time()
            redact(text, HOME)
            best = min(best, time.process_time() - begin)
        return best

    # 8 times the text, with room for noise: anything quadratic would take 64 times as long.
    assert cost_s(400_000) < 30 * cost_s(50_000) + 0.05
