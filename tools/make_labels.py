"""Writes classification/data/labels.txt: the names of the 1000 ImageNet classes by index.

Run it once, by hand, with the directory that a `timm` wheel was unpacked into:
`pip download --no-deps timm && unzip timm-*.whl -d timm && python tools/make_labels.py timm`.
"""

import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/safelight/classification/data/labels.txt"


def main(unpacked: Path) -> None:
    info = unpacked / "timm/data/_info"
    synsets = (info / "imagenet_synsets.txt").read_text().split()
    lemmas = (info / "imagenet_synset_to_lemma.txt").read_text().splitlines()
    names = dict(line.split("\t", 1) for line in lemmas)
    TARGET.write_text("".join(f"{names[synset]}\n" for synset in synsets))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
