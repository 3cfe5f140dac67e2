"""Draw docs/images/report.png, the picture of docs/report.md: a report on Spambase, in headless Chromium."""

import os
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa
from PIL import Image
from real_data import spambase

import flipproof

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "report.png"
WIDTH, HEIGHT = 1000, 1765  # pixels: from the title to the end of the curves
LEFT_OUT = "<style>section:has(> #tested) { display: none }</style>"  # a long section before the curves
CHROMIUM = ("chromium", "--headless", "--no-sandbox", "--disable-background-networking", "--hide-scrollbars")


def main() -> None:
    X, y = spambase(Path(os.environ["FLIPPROOF_DATA"]))
    emails = pa.table({f"feature_{column}": X[:, column] for column in range(X.shape[1])} | {"kind": y})
    result = flipproof.audit(
        emails,
        label="kind",
        holdout=0.25,
        methods=["exact", "tight", "kl"],
        noise=0.01,
        requirements=["accuracy >= 0.8 @ 20", "recall >= 0.7 @ 20"],
        title="Spam filter, release 4",
    )
    with tempfile.TemporaryDirectory() as folder:
        report, picture = Path(folder) / "report.html", Path(folder) / "report.png"
        result.save(report)
        report.write_text(report.read_text("utf-8").replace("</head>", f"{LEFT_OUT}</head>"), "utf-8")
        options = (f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}")
        subprocess.run([*CHROMIUM, *options, report.as_uri()], check=True, capture_output=True)
        # 256 colours: a third of the size
        Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(FIGURE, optimize=True)


if __name__ == "__main__":
    main()
