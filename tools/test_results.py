"""Reads the JUnit files that ctest wrote.

usage: test_results.py counts FILE...    how many passed and failed; a skipped test counts as neither
       test_results.py failures FILE...  the name and the last lines of each test that failed
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

LAST_LINES = 40


def counts(path: str) -> tuple[int, int]:
    suite = ElementTree.parse(path).getroot()
    tests, failures, skipped, disabled = (
        int(suite.get(key, "0")) for key in ("tests", "failures", "skipped", "disabled")
    )
    return tests - failures - skipped - disabled, failures


def failures(path: str) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.get("status") == "fail":
            lines = case.findtext("system-out", "").rstrip().splitlines()
            name = f"{case.get('name')} after {case.get('time')} s"
            yield name, "\n".join(lines[-LAST_LINES:])


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in ("counts", "failures"):
        print(__doc__, file=sys.stderr)
        return 2
    paths = sys.argv[2:]
    if sys.argv[1] == "counts":
        totals = [counts(path) for path in paths]
        print(sum(passed for passed, _ in totals), sum(failed for _, failed in totals))
        return 0
    for path in paths:
        for name, output in failures(path):
            print(f"== failed in {path}: {name}\n{output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
