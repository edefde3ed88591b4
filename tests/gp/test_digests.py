"""Test that digests equal hashlib's, from either source."""

import hashlib
import subprocess
import sys

from geoveil.gp import digests

WITHOUT = """
import sys
sys.modules["_sha256"] = sys.modules["_sha2"] = None
from geoveil.gp import digests
import hashlib
assert digests.sha256 is hashlib.sha256 and digests.blake2b is hashlib.blake2b
"""


def test_digests_are_those_of_hashlib():
    for length in (*range(260), 4096, 100_003):
        data = (b"geoveil" * (length // 7 + 1))[:length]
        assert digests.sha256(data).digest() == hashlib.sha256(data).digest()
        assert digests.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
        expected = hashlib.blake2b(data, digest_size=7).digest()
        assert digests.blake2b(data, digest_size=7).digest() == expected


def test_an_interpreter_without_them_uses_hashlib():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=60)
