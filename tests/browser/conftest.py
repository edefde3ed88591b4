"""A real browser, and servers with a gateway for it. Tests are skipped without Chromium."""

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import async_playwright

from tests.console.served import served

from .surveys import running

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-port=0"),
)
_PATIENCE_S = 60


@dataclass
class RunningBrowser:
    """A process of Chromium that tests connect to."""

    process: subprocess.Popen[bytes]
    endpoint: str
    folder: Path

    def kill(self) -> None:
        """End it on the spot; what it then leaves among the temporary files goes too."""
        self.process.kill()
        self.process.wait()
        socket = self.folder / "SingletonSocket"
        if socket.is_symlink():
            shutil.rmtree(socket.readlink().parent, ignore_errors=True)


def start_browser(folder: Path) -> RunningBrowser:
    """Start Chromium, which keeps what it stores in a folder.

    Where there is none, the test is skipped.
    """
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium: 'make browser' installs it")
    port = folder / "DevToolsActivePort"
    port.unlink(missing_ok=True)
    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + _PATIENCE_S
    while not port.exists() or len(lines := port.read_text().splitlines()) < 2:
        assert process.poll() is None, "Chromium ended"
        assert time.monotonic() < end, "Chromium does not start"
        time.sleep(0.02)
    return RunningBrowser(process, f"ws://127.0.0.1:{lines[0]}{lines[1]}", folder)


@pytest.fixture(scope="session")
def running_browser(tmp_path_factory):
    """One Chromium for each process of tests."""
    browser = start_browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.kill()


@pytest.fixture
async def browser(running_browser):
    async with async_playwright() as playwright:
        connected = await playwright.chromium.connect_over_cdp(running_browser.endpoint)
        yield connected
        await connected.close()  # which takes its temporary files with it


@pytest.fixture
async def context(browser):
    """A profile of its own, which keeps nothing."""
    made = await browser.new_context()
    made.set_default_timeout(1_000 * _PATIENCE_S / 3)
    yield made
    await made.close()


@pytest.fixture
async def survey(tmp_path):
    """A server without surveys."""
    async with running(tmp_path / "reports.db") as made:
        yield made


@pytest.fixture
async def console(tmp_path):
    """A console without surveys, which asks for no token."""
    async with served(tmp_path) as made:
        yield made


@pytest.fixture
async def page(context):
    """A page that fails the test if it complains, or asks any other server."""
    made = await context.new_page()
    complaints: list[str] = []
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    hosts: set[str] = set()
    made.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    yield made
    assert complaints == []
    assert len(hosts - {""}) == 1
