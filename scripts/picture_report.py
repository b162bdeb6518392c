"""Take a picture of a report with a headless Chromium: picture_report.py REPORT.html OUT.png."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--size", default="1200,1560", help="width and height in pixels")
    arguments = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("there is no Chromium on this machine", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as profile:
        command = [
            browser,
            "--headless=new",
            "--no-sandbox",
            "--hide-scrollbars",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
            "--virtual-time-budget=30000",
            f"--user-data-dir={profile}",
            f"--window-size={arguments.size}",
            f"--screenshot={arguments.picture.resolve()}",
            arguments.report.resolve().as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not arguments.picture.is_file():
        print(done.stderr, file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
