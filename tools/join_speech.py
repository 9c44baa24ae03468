"""Joins WAV files (mono, 16 bit) with silences before, between and after, at 16 kHz.

usage: join_speech.py OUT.wav IN.wav ...
"""

import pathlib
import sys
import wave

import numpy as np

RATE = 16000
SILENCE_SECONDS = 1.5


def read(path: str) -> tuple[np.ndarray, int]:
    with wave.open(path, "rb") as file:
        if file.getnchannels() != 1 or file.getsampwidth() != 2:
            raise ValueError(f"{path}: want one channel of 16 bit")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2"), file.getframerate()


def resample(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Cuts or extends the spectrum, so what lies above half the wanted rate doesn't fold back."""
    padded = np.pad(samples.astype(np.float64), (rate // 10, rate // 10))
    count = round(len(padded) * wanted / rate)
    spectrum = np.fft.rfft(padded)
    kept = np.zeros(count // 2 + 1, dtype=complex)
    shared = min(len(kept), len(spectrum))
    kept[:shared] = spectrum[:shared]
    return np.fft.irfft(kept, count) * (count / len(padded))


def main() -> int:
    silence = np.zeros(round(SILENCE_SECONDS * RATE))
    parts = [silence]
    for path in sys.argv[2:]:
        samples, rate = read(path)
        parts += [resample(samples, rate, RATE), silence]
    sound = np.clip(np.rint(np.concatenate(parts)), -32768, 32767).astype("<i2")
    with wave.open(str(pathlib.Path(sys.argv[1])), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
