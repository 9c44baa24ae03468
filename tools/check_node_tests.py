"""Judges the report of `tilemesh verify --data FOLDER --json FILE`.

Enough tests must have passed, and every other one must be unsupported with a reason, but for those
whose expected values are known to be wrong.
"""

import argparse
import json
import pathlib
import sys


def complaints(results: list[dict], least: int, wrong: list[str]) -> list[str]:
    found = []
    passed = sum(result["status"] == "passed" for result in results)
    if passed < least:
        found.append(f"{passed} of {len(results)} passed, {least} are asked for")
    for result in results:
        name, status = result["name"], result["status"]
        if status == "unsupported" and not result.get("reason"):
            found.append(f"{name}: unsupported without a reason")
        elif status not in ("passed", "unsupported") and name not in wrong:
            found.append(f"{name}: {status}: {result.get('reason') or result.get('max_error')}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=pathlib.Path)
    parser.add_argument("--least", type=int, default=450, help="how many have to pass")
    parser.add_argument("--wrong", action="append", default=[], metavar="TEST",
                        help="a test whose expected values are wrong")
    options = parser.parse_args()
    found = complaints(json.loads(options.report.read_text()), options.least, options.wrong)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
