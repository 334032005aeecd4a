"""``python docs/pictured.py [REPORT.html]``: how a report looks, wide and on a phone, as pictures for the pages.

It needs Chromium (Debian's package ``chromium``), which reads the file and nothing else. Without a report it makes a
small bake-off of its own on some shipped snippets. Pictures go to ``docs/trained/``.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from variorum.study.corpora import snippets, spread

ROOT = Path(__file__).parents[1]
SIZES = {"wide": (1100, 1700), "phone": (390, 1500)}
"""Width and height of a picture, in pixels of the page."""
ROWS = 900
ARMS = ("nano", "nano ModernBERT: nano:modernbert", "nano, frozen: head:nano")
USUAL = ("--latency", "100ms", "--seeds", "3", "--epochs", "3", "--learning-rate", "1e-3", "--max-length", "32")


def made(folder: Path) -> Path:
    """The report of a small bake-off."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "snippets.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        rows = spread(snippets(), ROWS)
        csv.writer(file).writerows([("text", "label"), *((row.text, row.domain) for row in rows)])
    words = ["choose", str(table), "--models", *ARMS, *USUAL, "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "variorum", *words], check=True, stdout=sys.stderr)
    return folder / "report.html"


def pictured(page: Path, browser: str, width: int, height: int, to: Path) -> None:
    """One picture of the top of a page; the window is as wide as asked, which Chromium's own least is not."""
    with tempfile.TemporaryDirectory(prefix="variorum-pictured-") as place:
        frame = Path(place) / "frame.html"
        frame.write_text(
            f'<body style="margin:0"><iframe src="{page.resolve().as_uri()}" style="border:0" width="{width}" '
            f'height="{height}"></iframe>',
            "utf-8",
        )
        subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={place}/profile", f"--window-size={max(width, 500)},{height + 200}",
             f"--screenshot={place}/whole.png", frame.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        cut(Path(place) / "whole.png", width, height, to)


def cut(whole: Path, width: int, height: int, to: Path) -> None:
    """The upper left part of a picture."""
    from PIL import Image

    with Image.open(whole) as image:
        image.crop((0, 0, width, height)).convert("P", palette=Image.Palette.ADAPTIVE).save(to, optimize=True)


def main(words: list[str]) -> None:
    """Make both pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium is here; apt-get install chromium brings it")
    page = Path(words[0]) if words else made(ROOT / ".cache/pictured")
    for name, (width, height) in SIZES.items():
        to = ROOT / f"docs/trained/report-{name}.png"
        pictured(page, browser, width, height, to)
        print(to)


if __name__ == "__main__":
    main(sys.argv[1:])
