"""SHA-256 and BLAKE2b from CPython itself, without OpenSSL, or from `hashlib` if it has none.

`hashlib` loads OpenSSL, 3.6 MiB that a device needs for nothing else. So modules that a device
imports take digests from here, and random bits from `random.SystemRandom` instead of `secrets`.
"""

import sys
from typing import TYPE_CHECKING

__all__ = ["blake2b", "sha256"]

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
else:
    try:
        from _blake2 import blake2b

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:
        from hashlib import blake2b, sha256
