"""The environment variables of commands.

Apart from the options that read them, as `serve` has to know them all: it refuses others, which are
misspelt, and loads no other command for that.
"""

SERVER = "GEOVEIL_SERVER"
TLS = "GEOVEIL_TLS"
TLS_ROOTS = "GEOVEIL_TLS_ROOTS"
TLS_CLIENT_CERTIFICATE = "GEOVEIL_TLS_CLIENT_CERTIFICATE"
TLS_CLIENT_KEY = "GEOVEIL_TLS_CLIENT_KEY"
TOKEN = "GEOVEIL_TOKEN"  # noqa: S105 - its name
"""Holds the token that a server asks analysts for, if it does."""
TOKEN_FILE = "GEOVEIL_TOKEN_FILE"  # noqa: S105 - its name
"""Holds the name of a file that holds the token."""
TOKENS_FILE = "GEOVEIL_TOKENS_FILE"
SIGN_KEY = "GEOVEIL_SIGN_KEY"
CONFIG = "GEOVEIL_CONFIG"
LANGUAGE = "GEOVEIL_LANG"

VARIABLES = frozenset(
    {
        *(SERVER, TLS, TLS_ROOTS, TLS_CLIENT_CERTIFICATE, TLS_CLIENT_KEY),
        *(TOKEN, TOKEN_FILE, TOKENS_FILE, SIGN_KEY, CONFIG, LANGUAGE),
    }
)
