"""What the upload tray stands on, each module by itself."""

import hashlib
import random

import pytest

from browser.conftest import Visit, load

pytestmark = pytest.mark.browser
SIZES = [0, 1, 3, 55, 56, 57, 63, 64, 65, 111, 119, 120, 127, 128, 1_000, 70_001]


def test_sums_are_those_of_the_standard(visit: Visit) -> None:
    page = visit("/login")
    load(page, "sha256", "Sha256", "sumOf")
    some = random.Random(7)
    datas = [some.randbytes(size) for size in SIZES]
    cuts = [sorted(some.choices(range(len(data) + 1), k=3)) for data in datas]
    found = page.evaluate(
        """(all) => all.map(([bytes, [a, b, c]]) => {
          const data = Uint8Array.from(bytes);
          const sum = new tested.Sha256();
          for (const [from, to] of [[0, a], [a, b], [b, c], [c, data.length]]) sum.update(data.subarray(from, to));
          return sum.hex();
        })""",
        [[list(data), cut] for data, cut in zip(datas, cuts, strict=True)],
    )
    assert found == [hashlib.sha256(data).hexdigest() for data in datas]
    piece, times = bytes(range(256)), 12_345  # over several reads of a file
    large = page.evaluate(
        "(n) => tested.sumOf(new Blob(Array(n).fill(Uint8Array.from(Array(256).keys()))))", times
    )
    assert large == hashlib.sha256(piece * times).hexdigest()


def test_the_worker_reads_and_so_does_the_page_without_one(visit: Visit) -> None:
    page = visit()
    address = page.locator("upload-tray").get_attribute("data-worker")
    load(page, "sums", "Sums")
    wanted = hashlib.sha256(b"abc").hexdigest()
    of = "(where) => new tested.Sums(where).of(new Blob(['abc']))"
    assert page.evaluate(of, address) == wanted
    page.route("**/nowhere.js", lambda route: route.abort())
    page.evaluate("() => { window.Worker = class extends EventTarget { constructor() { super();"
                  " setTimeout(() => this.dispatchEvent(new Event('error'))); } postMessage() {} } }")  # fmt: skip
    assert page.evaluate(of, "/nowhere.js") == wanted


ANSWERS = [
    ({"status": 0}, {}, "away"),
    ({"status": 502}, {}, "away"),
    ({"status": 503, "code": "UNAVAILABLE"}, {"breaks": 9}, "away"),
    ({"status": 507, "code": "STORAGE_ERROR"}, {"breaks": 9}, "away"),
    ({"status": 507, "code": "QUOTA_EXCEEDED"}, {}, "full"),
    ({"status": 500, "code": "DATABASE_ERROR"}, {"breaks": 9}, "away"),
    ({"status": 500, "code": "UNKNOWN_ERROR"}, {"breaks": 1}, "away"),
    ({"status": 500, "code": "UNKNOWN_ERROR"}, {"breaks": 5}, "refused"),
    ({"status": 400, "code": "STREAM_ERROR"}, {}, "away"),
    ({"status": 400, "code": "CHECKSUM_ERROR"}, {"breaks": 5}, "refused"),
    ({"status": 400, "code": "INVALID_FILE_TYPE"}, {}, "refused"),
    ({"status": 401}, {}, "signed-out"),
    ({"status": 403}, {}, "refused"),
    ({"status": 408}, {}, "away"),
    ({"status": 409, "code": "NAME_TAKEN"}, {"sentAgain": True}, "look"),
    ({"status": 413, "code": "FILE_TOO_LARGE"}, {}, "refused"),
    ({"status": 429, "code": "RATE_LIMITED"}, {}, "resting"),
]


def test_what_an_answer_means(visit: Visit) -> None:
    page = visit("/login")
    load(page, "upload-verdict", "verdict")
    found = page.evaluate("(all) => all.map(([a, i]) => tested.verdict(a, i))", ANSWERS)
    assert found == [means for _, _, means in ANSWERS]


def test_words(visit: Visit) -> None:
    page = visit("/login")
    load(page, "upload-words", "title", "figures", "note", "time")
    shown = {
        "phase": "going", "open": 42, "done": 17, "known": 1, "refused": 0, "left": 22 * 1024**2,
        "seconds": 39.6, "isSafe": True, "hasRoom": True, "words": "", "until": None,
    }  # fmt: skip

    def said(what: str, **changes: object) -> str:
        words: str = page.evaluate(f"(shown) => tested.{what}(shown)", shown | changes)
        return words

    assert said("figures") == "18 of 60 · 22 MB left · 40 s"
    assert said("figures", refused=2, seconds=None) == "20 of 62 · 22 MB left · 2 refused"
    assert said("figures", open=0) == ""
    assert said("title", open=0, done=59) == "All 60 are in the library"
    assert said("title", open=0, done=4_999, refused=2) == "5,000 of 5,002 are in the library"
    assert said("title", open=0, done=0, known=0, refused=3) == "3 refused"
    assert "leave this page open" in said("note", hasRoom=False, isSafe=False)
    assert said("note", phase="away", words="Full.") == "Full. It goes on by itself."
    times = page.evaluate("() => [0.2, 59, 60, 5000, 7200].map(tested.time)")
    assert times == ["1 s", "59 s", "1 min", "83 min", "2 h"]


def test_the_pace_is_that_of_the_last_seconds(visit: Visit) -> None:
    page = visit("/login")
    load(page, "pace", "Pace")
    left = page.evaluate(
        """() => {
          const pace = new tested.Pace();
          const told = [];
          for (let second = 0; second <= 30; second++) {
            pace.add(second < 15 ? 10 : 100, second * 1000);
            told.push(pace.left(1000, second * 1000));
          }
          return [told[0], told[1], told[14], told[30]];
        }"""
    )
    assert left[:2] == [None, None]
    assert left[2] == pytest.approx(100, rel=0.15)
    assert left[3] == pytest.approx(10, rel=0.15)
