"""Texts of Parquet files or of a Hugging Face dataset, as the .jsonl that `causeway prepare` takes.

    python -m causeway.texts a.parquet b.parquet --out texts.jsonl
    python -m causeway.texts roneneldan/TinyStories --split train --field text --out texts.jsonl

Every text becomes a line {"text": ...}: a document of its own. Rows without a text are left out, and counted.
"""
import argparse
import json
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any


class Unusable(Exception):
    """With a sentence for the user."""


def need(library: str, what: str) -> Any:
    try:
        return __import__(library, fromlist=["*"])
    except ImportError:
        raise Unusable(f"{what} needs {library.split('.')[0]}: pip install {library.split('.')[0]}") from None


def check_field(field: str, columns: Iterable[str], source: str) -> None:
    if field not in columns:
        raise Unusable(f"{source} has no column {field!r}; it has {', '.join(columns)}: name one with --field")


def of_parquet(path: str, field: str) -> Iterator[Any]:
    pyarrow, parquet = need("pyarrow", "reading Parquet"), need("pyarrow.parquet", "reading Parquet")
    try:
        file = parquet.ParquetFile(path)
        check_field(field, file.schema_arrow.names, path)
        for batch in file.iter_batches(columns=[field]):
            yield from batch.column(0).to_pylist()
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise Unusable(f"{path} cannot be read as Parquet: {error}") from None


def of_dataset(name: str, split: str, field: str) -> Iterator[Any]:
    datasets = need("datasets", "reading a Hugging Face dataset")
    try:
        rows = datasets.load_dataset(name, split=split, streaming=True)
    except (ValueError, OSError) as error:
        raise Unusable(f"the dataset {name} cannot be loaded: {error}") from None
    for row in rows:
        check_field(field, list(row), name)
        yield row[field]


def texts(source: str, split: str, field: str) -> Iterator[Any]:
    """The column `field` of `source`, a Parquet file or a dataset's name, one value after the other."""
    if source.endswith(".parquet") or pathlib.Path(source).is_file():
        return of_parquet(source, field)
    return of_dataset(source, split, field)


def write(sources: Iterable[str], split: str, field: str, out: str) -> tuple[int, int]:
    """Returns how many texts were written, and how many rows had none. The file is there whole, or not at all."""
    written = empty = 0
    partial = pathlib.Path(f"{out}.partial")
    try:
        with open(partial, "x", encoding="utf-8") as file:
            for source in sources:
                for value in texts(source, split, field):
                    if value is not None and not isinstance(value, str):
                        raise Unusable(f"{source}: the column {field!r} holds {type(value).__name__}, not text: name another "
                                       "one with --field")
                    if value:
                        file.write(json.dumps({"text": value}, ensure_ascii=False) + "\n")
                        written += 1
                    else:
                        empty += 1
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, out)
    except FileExistsError:
        raise Unusable(f"{partial} is left from an attempt that was ended: remove it") from None
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return written, empty


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m causeway.texts", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", metavar="FILE.parquet|DATASET")
    parser.add_argument("--field", default="text", help="the column that holds the text (default: text)")
    parser.add_argument("--split", default="train", help="the split of a dataset (default: train)")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl")
    given = parser.parse_args()
    if pathlib.Path(given.out).exists():
        sys.exit(f"{given.out} is there already: name another file, or remove it")
    try:
        written, empty = write(given.sources, given.split, given.field, given.out)
    except (Unusable, OSError) as error:
        sys.exit(f"causeway.texts: {error}")
    print(f"{given.out}: {written} texts" + (f"; {empty} rows have none" if empty else ""))


if __name__ == "__main__":
    main()
