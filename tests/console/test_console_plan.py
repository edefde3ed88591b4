"""The pages of planning, without a screen: fields, files, drafts, signatures, publishing, closing."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from geoveil.campaign import SigningKey, decode, encode, open_envelope, seal

from .served import Served, form_token, served, survey


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as made:
        yield made
