"""Prints how many tests passed and failed, from the JUnit files that ctest wrote.

A skipped test counts as neither.
"""

import sys
import xml.etree.ElementTree as ElementTree


def count(path: str) -> tuple[int, int]:
    suite = ElementTree.parse(path).getroot()
    tests, failures, skipped, disabled = (
        int(suite.get(key, "0")) for key in ("tests", "failures", "skipped", "disabled")
    )
    return tests - failures - skipped - disabled, failures


def main() -> int:
    totals = [count(path) for path in sys.argv[1:]]
    print(sum(passed for passed, _ in totals), sum(failed for _, failed in totals))
    return 0


if __name__ == "__main__":
    sys.exit(main())
