"""Headless Chromium, for tests of pages and for their pictures."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Names under which systems install it; the driver has to be of the same release.
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = "chromedriver"


#: Of a picture in the documentation, at most.
PICTURE_BYTES = 150_000


class NoBrowserError(RuntimeError):
    """Chromium is absent, or does not start; the text names what is missing."""


class PictureSizeError(RuntimeError):
    """A picture is larger than those in the documentation may be."""


@contextmanager
def chromium(width: int, height: int) -> Iterator[Any]:
    """A Selenium driver of a window of that size, in CSS pixels, without network.

    Raises:
        NoBrowserError: Selenium, Chromium or its driver is missing, or it does not start.
    """
    try:
        from selenium import webdriver
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError
    except ImportError as e:
        raise NoBrowserError("selenium is not installed") from e
    binary, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which(DRIVER)
    if binary is None or driver is None:
        raise NoBrowserError("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    # Containers have a small /dev/shm, and root has no sandbox.
    arguments = ["--headless=new", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")
    for argument in (*arguments, f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    except (WebDriverException, HTTPError, OSError) as e:
        raise NoBrowserError(f"Chromium does not start: {str(e).splitlines()[0]}") from e
    try:
        browser.execute_cdp_cmd("Network.enable", {})
        browser.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
        )
        resize(browser, width, height)
        yield browser
    finally:
        browser.quit()


def resize(browser: Any, width: int, height: int, *, scale: float = 1, phone: bool = False) -> None:
    """Sets the size of the page.

    Args:
        width, height: CSS pixels. `scale`: device pixels for each CSS pixel.
        phone: as on a mobile device.
    """
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone},
    )


def look(browser: Any, *, dark: bool = False, medium: str = "screen") -> None:
    """Shows the page in a colour scheme and medium.

    Args:
        dark: `prefers-color-scheme`. `medium`: "screen" or "print".
    """
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": [scheme]})


def screenshot(browser: Any, path: Path) -> None:
    """A PNG of what is visible."""
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    path.write_bytes(base64.b64decode(shot["data"]))


def picture(browser: Any, path: Path) -> None:
    """A screenshot for the documentation.

    Raises:
        PictureSizeError: it is too large to be committed.
    """
    screenshot(browser, path)
    size = path.stat().st_size
    if size > PICTURE_BYTES:
        raise PictureSizeError(f"{path.name} has {size} bytes, {PICTURE_BYTES} may be")


def printed(browser: Any, path: Path) -> None:
    """The page as PDF, A4."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    paper = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
    path.write_bytes(base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", paper)["data"]))
