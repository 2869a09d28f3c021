"""The host's key store: one private key that seals, and the public halves of all that ever did.

ECDSA on P-256 comes from the package `cryptography`, imported only where a key is really used. See
workcell-audit-seal(5).
"""

import errno
import os
import stat

from workcell import atomic
from workcell.errors import PreconditionError, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

PRIVATE_NAME = "signing.key"
ALGORITHM = "ecdsa-p256-sha256"

_FILE_LIMIT_BYTES = 1 << 16


class UnknownKeyError(UnreadableError):
    """There is no public key of that id here, or the file holds another key: this host did not seal with it."""


def key_id(public_key: "ec.EllipticCurvePublicKey") -> str:
    """Return the id of a key: the first 32 hex digits of SHA-256 over its SubjectPublicKeyInfo in DER."""
    from hashlib import sha256

    from cryptography.hazmat.primitives import serialization

    der = public_key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).hexdigest()[:32]


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise PreconditionError(
            "cryptography", "this Python has no such package", "install it: seals are made and checked with it"
        ) from None


# --- signing


def load_or_make(signing_dir: str) -> "ec.EllipticCurvePrivateKey":
    """Return the private key of the store, making store and key at first use; its public half is then there as well.

    Raises UnreadableError where store or key are not this user's alone.
    """
    _need_cryptography()
    if not signing_dir.strip():
        raise UnreadableError("key store", "has no path")
    signing_dir = signing_dir.rstrip("/") or "/"
    atomic.make_dir(signing_dir)
    dir_fd = _open_store(signing_dir, repair=True)
    try:
        _sync_ancestors(signing_dir)
        try:
            key = _read_private(dir_fd, signing_dir)
        except FileNotFoundError:
            key = _make_private(dir_fd, signing_dir)
        _ensure_public(dir_fd, signing_dir, key)
        return key
    finally:
        os.close(dir_fd)


def _open_store(path: str, repair: bool) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = {
            errno.ENOENT: "there is no key store",
            errno.ELOOP: "the key store is a link",
            errno.ENOTDIR: "the key store is a link or no folder",
        }.get(error.errno or 0, error.strerror or str(error))
        raise UnreadableError(path, why) from None
    found = os.fstat(fd)
    why = ""
    if found.st_uid != os.geteuid():
        why = f"the key store belongs to uid {found.st_uid}"
    elif found.st_mode & 0o077:
        if repair:
            os.fchmod(fd, 0o700)
        else:
            why = f"the key store is open to others (mode {stat.S_IMODE(found.st_mode):04o})"
    if why:
        os.close(fd)
        raise UnreadableError(path, why, f"see who changed it, then chmod 700 {path}")
    return fd


def _sync_ancestors(path: str) -> None:
    """Make the store itself survive a crash: sync the folders above it as far up as they can be opened."""
    while path != "/":
        path = os.path.dirname(path)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _read(dir_fd: int, name: str, path: str, closed: int) -> bytes:
    """Return a key file's bytes; raise FileNotFoundError, or UnreadableError where it is not to be trusted."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(path, "is a link" if error.errno == errno.ELOOP else error.strerror or str(error)) from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise UnreadableError(path, "is no regular file of yours")
        if found.st_mode & closed:
            raise UnreadableError(
                path, f"is open to others (mode {stat.S_IMODE(found.st_mode):04o})", "see who could have changed it"
            )
        data = os.read(fd, _FILE_LIMIT_BYTES + 1)
        if len(data) > _FILE_LIMIT_BYTES:
            raise UnreadableError(path, "is too large for a key")
        return data
    finally:
        os.close(fd)


def _read_private(dir_fd: int, store: str) -> "ec.EllipticCurvePrivateKey":
    path = f"{store}/{PRIVATE_NAME}"
    data = _read(dir_fd, PRIVATE_NAME, path, 0o077)
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    # The older form, EC PRIVATE KEY, loads as well; other readers of the store refuse it.
    if b"-----BEGIN PRIVATE KEY-----" not in data:
        raise UnreadableError(path, "holds no PKCS#8 private key", "move it away to have a new one made")
    try:
        key = serialization.load_pem_private_key(data, None)
    except Exception:  # the library has many kinds of complaint about bad bytes, and none is of use here
        raise UnreadableError(path, "holds no private key that can be read", "move it away to have a new one made") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise UnreadableError(path, "is no ECDSA key on P-256", "move it away to have a new one made")
    return key


def _make_private(dir_fd: int, store: str) -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    temporary = atomic.write_temporary(dir_fd, PRIVATE_NAME, pem, 0o600)
    try:
        # link(2) refuses a name that is taken: of two that make a key at once, one wins and both use its key.
        os.link(temporary, PRIVATE_NAME, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except FileExistsError:
        key = _read_private(dir_fd, store)
    finally:
        os.unlink(temporary, dir_fd=dir_fd)
    os.fsync(dir_fd)
    return key


def _ensure_public(dir_fd: int, store: str, key: "ec.EllipticCurvePrivateKey") -> None:
    from cryptography.hazmat.primitives import serialization

    public = key.public_key()
    name = key_id(public) + ".pub"
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        there = _read(dir_fd, name, f"{store}/{name}", 0o022) == pem
    except (FileNotFoundError, UnreadableError):
        there = False
    if there:
        os.fsync(dir_fd)
    else:
        atomic.replace_at(dir_fd, name, pem, 0o644)


def sign(key: "ec.EllipticCurvePrivateKey", message: bytes) -> bytes:
    """Return the DER signature over SHA-256 of a message."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return key.sign(message, ec.ECDSA(hashes.SHA256()))


# --- verifying


def public_key(signing_dir: str, wanted_id: str) -> "ec.EllipticCurvePublicKey":
    """Return the public key of an id.

    Raises UnknownKeyError where this host has none, UnreadableError where what it has is not to be trusted.
    """
    _need_cryptography()
    if not is_key_id(wanted_id):
        raise UnreadableError(f"key id {wanted_id[:80]!r}", "is empty or not lower-case hex")
    signing_dir = signing_dir.rstrip("/") or "/"
    dir_fd = _open_store(signing_dir, repair=False)
    name = wanted_id + ".pub"
    path = f"{signing_dir}/{name}"
    try:
        data = _read(dir_fd, name, path, 0o022)
    except FileNotFoundError:
        raise UnknownKeyError(path, "there is no such key: the session was not sealed by this host") from None
    finally:
        os.close(dir_fd)
    key, its_id = _plain_public_key(data) or _any_public_key(data, path)
    if its_id != wanted_id:
        raise UnknownKeyError(path, f"holds another key, whose id is {its_id}")
    return key


# SubjectPublicKeyInfo of an uncompressed point on P-256, up to the point (RFC 5480).
_P256_DER = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")


def _plain_public_key(data: bytes) -> "tuple[ec.EllipticCurvePublicKey, str] | None":
    """Return (key, its id) of a file as it is written here, None for any other, good or not.

    The package's module for all kinds of key files costs as much to import as all else that a check of a seal needs.
    """
    import binascii
    from hashlib import sha256

    first, _, rest = data.partition(b"\n")
    body, _, last = rest.partition(b"\n-----END PUBLIC KEY-----")
    if first != b"-----BEGIN PUBLIC KEY-----" or last not in (b"", b"\n"):
        return None
    try:
        der = binascii.a2b_base64(body.replace(b"\n", b""), strict_mode=True)
    except binascii.Error:
        return None
    if len(der) != 91 or not der.startswith(_P256_DER):
        return None
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), der[26:])
    except ValueError:  # no point of the curve
        return None
    return key, sha256(der).hexdigest()[:32]


def _any_public_key(data: bytes, path: str) -> "tuple[ec.EllipticCurvePublicKey, str]":
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key = serialization.load_pem_public_key(data)
    except Exception:  # the library has many kinds of complaint about bad bytes, and none is of use here
        raise UnknownKeyError(path, "holds no public key that can be read") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise UnknownKeyError(path, "is no ECDSA key on P-256")
    return key, key_id(key)


def is_key_id(text: str) -> bool:
    """Say whether a text can be the name of a key: lower-case hex digits, short enough for a file name."""
    return 0 < len(text) <= 200 and set(text) <= set("0123456789abcdef")


def signature_fits(key: "ec.EllipticCurvePublicKey", signature: bytes, message: bytes) -> bool:
    """Say whether a DER signature over SHA-256 of a message is by this key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True
