"""Open all pages of the built site in Chromium at the width of a phone; fail if one must be scrolled sideways.

python .ci/narrow_pages.py docs/_build/html
"""

from __future__ import annotations

import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from selenium import webdriver

WIDTH, HEIGHT = 390, 844  # pixels
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking")

#: Returns the first element that sticks out, for the message.
STICKS_OUT = """
for (const one of document.querySelectorAll("body *")) {
    const right = one.getBoundingClientRect().right;
    if (!one.children.length && right > arguments[0] + 1) return one.outerHTML.slice(0, 120);
}
return "";
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


def main(folder):
    """Open all pages of a folder; return the message of the failure, or an empty one."""
    pages = sorted(path.relative_to(folder) for path in folder.rglob("*.html"))
    pages = [page for page in pages if not page.parts[0].startswith("_")]
    if not pages:
        return f"No pages in {folder}: build the site first, make -C docs html"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    too_wide = []
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for page in pages:
            driver.get(f"http://127.0.0.1:{server.server_port}/{page.as_posix()}")
            width = driver.execute_script("return document.scrollingElement.scrollWidth")
            if width > WIDTH + 1:
                too_wide.append(f"{page}: {width} px. {driver.execute_script(STICKS_OUT, WIDTH)}")
    finally:
        driver.quit()
        server.shutdown()
    print(f"{len(pages)} pages opened at {WIDTH} px, {len(too_wide)} too wide")
    return "\n".join(too_wide)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or 0)
