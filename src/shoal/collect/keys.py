"""Keys: the analyst's, who opens reports, and the shuffler's, who signs releases, each with a certificate for TLS.

A helper, who adds dummies, has a key to sign them with, and no certificate.
"""

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shoal.durable_file import whole_file
from shoal.errors import FormatError, ParameterError, StorageError, WrongKeyError

_YEARS = 5
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_MOST_HOST = 253
_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
PrivateKey = x25519.X25519PrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def make_analyst_keys(folder: Path) -> dict[str, Path]:
    """Write the analyst's keys into a folder, never over others: to open reports, and to pull them by mutual TLS."""
    return _make(folder, "analyst", x25519.X25519PrivateKey.generate(), ["analyst"], ExtendedKeyUsageOID.CLIENT_AUTH)


def make_shuffler_keys(folder: Path, hosts: Sequence[str]) -> dict[str, Path]:
    """Write the shuffler's keys into a folder, never over others: to sign releases, and to be known by TLS.

    Parameters
    ----------
    folder : Path
        Where to.
    hosts : sequence of str
        The names and addresses under which clients and analyst reach it.
    """
    if not hosts:
        raise ParameterError("a shuffler needs a host, such as localhost or shuffler.example.org")
    key = ed25519.Ed25519PrivateKey.generate()
    return _make(folder, "shuffler", key, hosts, ExtendedKeyUsageOID.SERVER_AUTH)


def make_signing_keys(folder: Path, name: str) -> dict[str, Path]:
    """Write a key to sign with, and its public half, into a folder, never over others.

    Parameters
    ----------
    folder : Path
        Where to.
    name : str
        Of whoever signs, such as helper.
    """
    key = ed25519.Ed25519PrivateKey.generate()
    return _written(folder, name, {"private_key": _private_pem(key), "public_key": _public_pem(key)})


def _make(
    folder: Path, name: str, key: PrivateKey, hosts: Sequence[str], usage: x509.ObjectIdentifier
) -> dict[str, Path]:
    tls_key = ec.generate_private_key(ec.SECP256R1())
    contents = {
        "private_key": _private_pem(key),
        "public_key": _public_pem(key),
        "tls_key": _private_pem(tls_key),
        "tls_certificate": _certificate(tls_key, hosts, usage),
    }
    return _written(folder, name, contents)


def _written(folder: Path, name: str, contents: dict[str, bytes]) -> dict[str, Path]:
    ends = {"private_key": ".key", "public_key": ".pub", "tls_key": "-tls.key", "tls_certificate": "-tls.crt"}
    paths = {kind: folder / f"{name}{ends[kind]}" for kind in contents}
    for path in paths.values():
        if path.exists():
            raise ParameterError(f"{path} is there already, and a lost key can't be made again; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StorageError(f"cannot make the folder {folder}: {error.strerror}", error) from None
    for kind, path in paths.items():
        with whole_file(path, mode=0o600 if kind in ("private_key", "tls_key") else 0o644) as file:
            file.write(contents[kind])
    return paths


def _private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _certificate(key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], usage: x509.ObjectIdentifier) -> bytes:
    """Return a certificate signed by its own key: whoever trusts this file trusts this key, and no authority."""
    try:
        known_as = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    except ValueError as error:
        raise ParameterError(f"{', '.join(map(repr, hosts))} is no name or address of a host: {error}") from None
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=366 * _YEARS))
        .add_extension(known_as, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host) or len(host) > _MOST_HOST:
            raise ValueError("a name has letters, digits, dots and dashes") from None
        return x509.DNSName(host)


def analyst_key(path: Path) -> x25519.X25519PrivateKey:
    """Return the private key that opens reports; nobody but its owner may be able to read the file."""
    key = _private(path)
    if not isinstance(key, x25519.X25519PrivateKey):
        raise WrongKeyError(f"{path} is no private key of an analyst; `shoal keygen analyst` makes one")
    _check_mode(path)
    return key


def shuffler_key(path: Path) -> ed25519.Ed25519PrivateKey:
    """Return the private key that signs releases; nobody but its owner may be able to read the file."""
    return signing_key(path, "shuffler")


def signing_key(path: Path, role: str) -> ed25519.Ed25519PrivateKey:
    """Return a private key that signs; nobody but its owner may be able to read the file.

    Parameters
    ----------
    path : Path
        The file.
    role : str
        Whose key it should be, for errors.
    """
    key = _private(path)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise WrongKeyError(f"{path} is no private key of a {role}; `shoal keygen {role}` makes one")
    _check_mode(path)
    return key


def _private(path: Path) -> object:
    data = _read(path)
    try:
        return serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError):
        raise FormatError(f"{path} is no private key; give the .key file that `shoal keygen` made") from None


def _check_mode(path: Path) -> None:
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise ParameterError(f"others can read the private key {path}; run: chmod 600 {path}")


def public_key(path: Path, role: str) -> bytes:
    """Return the 32 bytes of a public key: the analyst's to seal for, all others' to verify; not one for the other."""
    data = _read(path)
    try:
        key = serialization.load_pem_public_key(data)
    except ValueError:
        raise FormatError(f"{path} is no public key; give the .pub file that `shoal keygen` made") from None
    kind: type[x25519.X25519PublicKey | ed25519.Ed25519PublicKey]
    kind = x25519.X25519PublicKey if role == "analyst" else ed25519.Ed25519PublicKey
    if not isinstance(key, kind):
        raise WrongKeyError(f"{path} is no public key of the {role}; give the {role}.pub that `shoal keygen` made")
    return key.public_bytes_raw()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(1 << 16)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; `shoal keygen` makes keys", error) from None
