"""Processes that work numbers off. One that dies or takes too long costs its number alone, and is
replaced: an oracle may divide by zero in C++, which ends the process that it is in."""

import collections
import ctypes
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator

_context = multiprocessing.get_context("fork")
_DIE_WITH_PARENT = 1  # of prctl, in the Linux headers


class Lost(Exception):
    """A process ended without an answer, or gave none in time."""


class _Worker:
    def __init__(self, begin: Callable[[], None], work: Callable):
        self.pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=self._serve, args=(theirs, begin, work))
        self._process.start()
        theirs.close()
        self.number: int | None = None
        self.tries = 0
        self.end = 0.0

    def _serve(self, pipe, begin: Callable[[], None], work: Callable) -> None:
        self.pipe.close()
        begin()
        while True:
            try:
                task = pipe.recv()
            except EOFError:
                return
            pipe.send(work(*task))

    def give(self, number: int, tries: int, seconds: float) -> None:
        self.number, self.tries, self.end = number, tries, time.monotonic() + seconds
        self.pipe.send((number, tries > 0))

    def close(self) -> str:
        """How it ended, or that it had to be stopped."""
        self.pipe.close()
        self._process.join(0.2)
        code = self._process.exitcode
        if code is None:
            self._process.kill()
            self._process.join()
        return "took too long" if code is None else f"ended with {code}"


def work_off(numbers: Iterable[int], jobs: int, seconds: float, begin: Callable[[], None],
             work: Callable[[int, bool], dict], lost: Callable[[int, str], dict]) -> Iterator[dict]:
    """The results of `work(number, careful)`, as they come. A number that costs its process is tried
    once more with `careful`; if it does so again, `lost(number, why)` is its result."""
    left = collections.deque((number, 0) for number in numbers)
    workers = [_Worker(begin, work) for _ in range(min(jobs, len(left)))]
    try:
        yield from _work_off(left, workers, seconds, lost, lambda: _Worker(begin, work))
    finally:
        for worker in workers:
            worker.close()


def _work_off(left: collections.deque, workers: list[_Worker], seconds: float, lost: Callable,
              another: Callable[[], _Worker]) -> Iterator[dict]:
    while left or any(w.number is not None for w in workers):
        for worker in workers:
            if worker.number is None and left:
                worker.give(*left.popleft(), seconds)
        busy = [w for w in workers if w.number is not None]
        first = max(0.0, min(w.end for w in busy) - time.monotonic())
        ready = multiprocessing.connection.wait([w.pipe for w in busy], first)
        for worker in busy:
            if worker.pipe in ready:
                try:
                    yield worker.pipe.recv()
                    worker.number = None
                    continue
                except (EOFError, ConnectionResetError):
                    pass
            elif time.monotonic() < worker.end:
                continue
            why = worker.close()
            workers[workers.index(worker)] = another()
            if worker.tries:
                yield lost(worker.number, why)
            else:
                left.append((worker.number, 1))


def apart(seconds: float, function: Callable, *arguments):
    """The function's result, computed in a process of its own. Its exceptions come through."""
    ours, theirs = _context.Pipe(duplex=False)

    def compute() -> None:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        try:
            answer = (True, function(*arguments))
        except Exception as error:  # noqa: BLE001: whatever it is, it comes out on the other side
            answer = (False, error)
        try:
            theirs.send(answer)
        except (pickle.PicklingError, TypeError):
            theirs.send((False, RuntimeError(str(answer[1]))))

    process = _context.Process(target=compute, daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise Lost(f"no answer within {seconds:g} s")
        good, answer = ours.recv()
    except EOFError:
        process.join()
        raise Lost(f"the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if not good:
        raise answer
    return answer
