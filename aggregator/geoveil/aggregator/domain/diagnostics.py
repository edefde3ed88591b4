"""The log entry of an unexpected exception, with its place but no values."""

import traceback


def traceback_without_values(error: BaseException) -> str:
    """Return an exception's traceback and causes, without messages, which may quote reports."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    parts = []
    for link in reversed(chain):
        kind = type(link)
        frames = "".join(traceback.format_tb(link.__traceback__))
        parts.append(
            f"Traceback (most recent call last):\n{frames}"
            f"{kind.__module__}.{kind.__qualname__} (message not shown)\n"
        )
    return "while handling or because of it:\n".join(parts)
