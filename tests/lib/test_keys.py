"""The key store: one key made at first use, trusted only while it is this user's alone."""

import os
import stat
import subprocess
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from evidence_support import Children, content, write
from workcell import errors, keys

MESSAGE = b"what is signed"
# A public key, its id and a signature that another program made over a message of this toolkit.
PUBLIC = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJgJb4qzk1gswB/TgoHoTlr9m8k+6
yniBZ3YMjsR9h2ytMpA//ut5FisinDPD0Ffv6KWmmYEXWihrU/yNCJ+6lg==
-----END PUBLIC KEY-----
"""
KEY_ID = "48509f656d596ccaabf7bcc4125541a7"
SIGNATURE = "MEYCIQCkXd49Ccn+CML0zom7l1EUZ2XC6jKXvb29ub9jPgOxlAIhAJHwer+hPIF5r14H/ny65ng0bHVBGmniaCf9Kk7ZwBks"
HEAD = "9c0c94adca64da1af7a34dea6beb1dcf7d810ae2a8105e4dc8149e0f97b96380"


@pytest.fixture
def store(tmp_path):
    return str(tmp_path / "state" / "signing")


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def pem(key, form=serialization.PrivateFormat.PKCS8):
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def test_the_first_use_makes_store_and_key_for_the_owner_alone(store):  # J12
    before = os.umask(0)
    try:
        key = keys.load_or_make(store)
    finally:
        os.umask(before)
    name = keys.key_id(key.public_key()) + ".pub"
    assert sorted(os.listdir(store)) == sorted(["signing.key", name])
    assert (mode(store), mode(store + "/signing.key"), mode(f"{store}/{name}")) == (0o700, 0o600, 0o644)
    assert b"-----BEGIN PRIVATE KEY-----" in content(store + "/signing.key")
    assert b"-----BEGIN PUBLIC KEY-----" in content(f"{store}/{name}")


def test_the_second_use_finds_the_same_key(store):
    first, second = keys.load_or_make(store), keys.load_or_make(store + "/")
    assert keys.key_id(first.public_key()) == keys.key_id(second.public_key())


def test_what_one_signs_the_other_verifies_and_nothing_else(store):
    key = keys.load_or_make(store)
    public = keys.public_key(store, keys.key_id(key.public_key()))
    signature = keys.sign(key, MESSAGE)
    assert keys.signature_fits(public, signature, MESSAGE)
    assert not keys.signature_fits(public, signature, MESSAGE + b"x")
    assert not keys.signature_fits(public, signature[:-1], MESSAGE)
    assert not keys.signature_fits(public, b"", MESSAGE)


def test_a_signature_of_another_program_verifies(store):
    import base64

    from workcell import canonical

    write(f"{store}/{KEY_ID}.pub", PUBLIC, 0o644)
    os.chmod(store, 0o700)
    message = canonical.seal_message("20260102T030405Z-0a1b2c3d", HEAD)
    assert keys.signature_fits(keys.public_key(store, KEY_ID), base64.b64decode(SIGNATURE), message)


def test_signers_that_start_at_once_share_one_key(tmp_path, store):
    children = Children()
    for _ in range(4):
        children.start("from workcell import keys\nkeys.load_or_make(sys.argv[1])", store)
    assert children.join() == [0] * 4
    assert len(os.listdir(store)) == 2


def test_an_open_store_is_closed_by_the_signer_and_refused_by_the_verifier(store):
    key_id = keys.key_id(keys.load_or_make(store).public_key())
    os.chmod(store, 0o750)
    with pytest.raises(errors.UnreadableError, match="open to others"):
        keys.public_key(store, key_id)
    assert mode(store) == 0o750
    keys.load_or_make(store)
    assert mode(store) == 0o700


def test_a_store_that_is_a_link_or_a_file_is_refused(store, tmp_path):
    keys.load_or_make(store)
    os.symlink(store, tmp_path / "link")
    write(str(tmp_path / "file"), b"")
    for path in (str(tmp_path / "link"), str(tmp_path / "link") + "/"):
        with pytest.raises(errors.UnreadableError):
            keys.public_key(path, KEY_ID)
        with pytest.raises((errors.UnreadableError, OSError)):
            keys.load_or_make(path)
    with pytest.raises((errors.UnreadableError, OSError)):
        keys.load_or_make(str(tmp_path / "file"))
    with pytest.raises(errors.UnreadableError):
        keys.load_or_make(" ")


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_may_read_is_never_used_nor_mended(store, bits):  # J06
    keys.load_or_make(store)
    os.chmod(store + "/signing.key", bits)
    with pytest.raises(errors.UnreadableError, match="open to others"):
        keys.load_or_make(store)
    assert mode(store + "/signing.key") == bits


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP384R1())),
        pem(ed25519.Ed25519PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP256R1()), serialization.PrivateFormat.TraditionalOpenSSL),
        b"x" * 100_000,
    ],
    ids=["empty", "garbage", "broken", "p384", "ed25519", "older form", "large"],
)
def test_a_private_key_of_another_kind_is_refused_and_left(store, data):
    write(store + "/signing.key", data)
    os.chmod(store, 0o700)
    with pytest.raises(errors.UnreadableError):
        keys.load_or_make(store)
    assert content(store + "/signing.key") == data


@pytest.mark.parametrize("name", ["signing.key", "pub"])
@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_a_key_file_that_is_no_plain_file_is_refused(store, name, kind):
    key_id = keys.key_id(keys.load_or_make(store).public_key())
    path = f"{store}/{key_id}.pub" if name == "pub" else f"{store}/{name}"
    os.rename(path, path + ".away")
    os.symlink(path + ".away", path) if kind == "link" else os.mkfifo(path, 0o600)
    with pytest.raises(errors.UnreadableError):
        keys.public_key(store, key_id) if name == "pub" else keys.load_or_make(store)


def test_a_public_key_that_does_not_fit_is_written_again(store):
    key_id = keys.key_id(keys.load_or_make(store).public_key())
    path = f"{store}/{key_id}.pub"
    for damage in (b"garbage", PUBLIC):
        write(path, damage, 0o644)
        keys.load_or_make(store)
        assert keys.public_key(store, key_id)
    os.chmod(path, 0o666)
    keys.load_or_make(store)
    assert mode(path) == 0o644


def test_a_public_key_under_another_name_is_not_this_hosts(store):
    keys.load_or_make(store)
    write(f"{store}/{'0' * 32}.pub", PUBLIC, 0o644)
    with pytest.raises(keys.UnknownKeyError, match=f"another key, whose id is {KEY_ID}"):
        keys.public_key(store, "0" * 32)
    with pytest.raises(keys.UnknownKeyError, match="not sealed by this host"):
        keys.public_key(store, "1" * 32)
    write(f"{store}/{'2' * 32}.pub", b"garbage", 0o644)
    with pytest.raises(keys.UnknownKeyError):
        keys.public_key(store, "2" * 32)


@pytest.mark.parametrize("key_id", ["", "../x", "ABC", "a/b", "0" * 5000, "é"])
def test_a_key_id_that_is_no_hex_opens_nothing(store, key_id):
    keys.load_or_make(store)
    with pytest.raises(errors.UnreadableError, match="empty or not lower-case hex"):
        keys.public_key(store, key_id)


def test_removing_the_private_key_makes_a_new_one_and_keeps_the_old_public_key(store):  # J08
    old = keys.key_id(keys.load_or_make(store).public_key())
    os.unlink(store + "/signing.key")
    new = keys.key_id(keys.load_or_make(store).public_key())
    assert new != old
    assert keys.public_key(store, old) and keys.public_key(store, new)


def test_a_full_disk_leaves_no_half_of_a_key(store, monkeypatch):
    def fail(fd, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space"):
        keys.load_or_make(store)
    monkeypatch.undo()
    assert os.listdir(store) == []
    assert keys.load_or_make(store)


BODY = PUBLIC.split(b"\n", 1)[1].rpartition(b"\n-----END")[0]
OTHER_CURVE = ec.derive_private_key(5, ec.SECP384R1()).public_key()
FORMS = {
    "as written": PUBLIC,
    "without the last line break": PUBLIC.rstrip(b"\n"),
    "in one line": PUBLIC.replace(BODY, BODY.replace(b"\n", b"")),
    "with return characters": PUBLIC.replace(b"\n", b"\r\n"),
    "with a comment before": b"a comment\n" + PUBLIC,
    "with something after": PUBLIC + b"more\n",
    "twice": PUBLIC + PUBLIC,
    "with a blank in it": PUBLIC.replace(b"MFkw", b"MF kw"),
    "with other letters": PUBLIC.replace(b"MFkw", b"M*Fkw"),
    "a byte short": PUBLIC.replace(b"+6lg==", b"+6l="),
    "no point of the curve": PUBLIC.replace(b"+6lg==", b"+6lw=="),
    "of another curve": OTHER_CURVE.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    "empty": b"",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_short_way_of_reading_a_public_key_changes_no_answer(store, monkeypatch, form):
    keys.load_or_make(store)
    write(f"{store}/{KEY_ID}.pub", FORMS[form], 0o644)

    def outcome():
        try:
            return keys.key_id(keys.public_key(store, KEY_ID))
        except errors.UnreadableError as error:
            return str(error)

    quickly = outcome()
    monkeypatch.setattr(keys, "_plain_public_key", lambda data: None)
    assert outcome() == quickly
    if form in ("as written", "without the last line break"):
        assert quickly == KEY_ID
    if form in ("a byte short", "no point of the curve", "of another curve", "empty"):
        assert quickly != KEY_ID


def test_a_seal_is_checked_without_the_module_for_all_kinds_of_keys(store):
    key = keys.load_or_make(store)
    source = "import sys; sys.path.insert(0, sys.argv[1]); from workcell import keys; key = keys.public_key(*sys.argv[2:4]); "
    source += "keys.signature_fits(key, b'x', b'y'); print([name for name in sys.modules if name.endswith('.serialization')])"
    lib = os.path.dirname(os.path.dirname(keys.__file__))
    done = subprocess.run(
        [sys.executable, "-c", source, lib, store, keys.key_id(key.public_key())], stdout=-1, text=True, check=True
    )
    assert done.stdout == "[]\n"
