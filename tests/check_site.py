"""Check a built site: `python tests/check_site.py docs/_build`.

Every link inside it must lead somewhere. If there is a Chromium, every page is opened in a wide window and in one as
narrow as a phone: nothing may be reported on the console, every picture must be shown, and no page may be wider than
the window.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"),
]
PROBE = """<!doctype html><title>waiting</title>
<iframe src="{page}" style="width:{width}px;height:900px"></iframe><script>
addEventListener('load', () => {{ const d = document.querySelector('iframe').contentDocument;
const missing = [...d.images].filter(i => i.loading !== 'lazy' && !(i.complete && i.naturalWidth)).length;
const root = d.documentElement, wider = Math.max(0, root.scrollWidth - root.clientWidth);
document.title = `missing ${{missing}}, wider by ${{wider}}`; }});</script>"""


class Page(HTMLParser):
    """The links of a page, and the places that it names."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names |= {value for key in ("id", "name") if (value := found.get(key))}
        self.links += [value for key in ("href", "src") if (value := found.get(key))]


def broken_links(root: Path) -> list[str]:
    """Links that lead nowhere, as "page: link"."""
    pages = {path: Page(path) for path in root.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme or link.startswith(("//", "data:")):
                continue
            place, name = urldefrag(link)
            target = (path.parent / unquote(place.partition("?")[0])).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            named = target.suffix != ".html" or not name or target not in pages or unquote(name) in pages[target].names
            if not target.exists() or not named:
                found.append(f"{path.relative_to(root)}: {link}")
    return found


def complaints(root: Path) -> list[str]:
    """What a browser finds wrong."""
    found = []
    handler = functools.partial(Silent, directory=root)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        probe = root / "_probe.html"
        try:
            for path in sorted(root.rglob("*.html")):
                for width in WIDTHS:
                    if path == probe:
                        continue
                    page = path.relative_to(root).as_posix()
                    probe.write_text(PROBE.format(page=page, width=width), encoding="utf-8")
                    url = f"http://localhost:{server.server_port}/_probe.html"
                    shown = subprocess.run(
                        [
                            BROWSER or "",
                            *QUIET,
                            f"--user-data-dir={folder}",
                            "--window-size=1400,1000",
                            "--dump-dom",
                            url,
                        ],
                        capture_output=True,
                        text=True,
                        timeout=60,
                        check=True,
                    )
                    title = re.search("<title>(.*?)</title>", shown.stdout)
                    if title is None or title[1] != "missing 0, wider by 0":
                        found.append(f"{page}, {width} wide: {title and title[1]}")
                    found += [f"{page}: {line}" for line in shown.stderr.splitlines() if "CONSOLE" in line]
        finally:
            probe.unlink(missing_ok=True)
            server.shutdown()
    return found


class Silent(http.server.SimpleHTTPRequestHandler):
    """A server that does not report each request."""

    def log_message(self, *args: object) -> None:
        """Nothing."""


def main() -> None:
    root = Path(sys.argv[1]).resolve()
    wrong = broken_links(root)
    if BROWSER:
        wrong += complaints(root)
    else:
        print("no Chromium here: the pages were not opened")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(list(root.rglob('*.html')))} pages, no broken link{', nothing to complain about' if BROWSER else ''}")


if __name__ == "__main__":
    main()
