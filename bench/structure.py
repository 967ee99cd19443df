#!/usr/bin/env python3
"""Files, lines and includes of the product at two commits, by folder and by room: python3 bench/structure.py BEFORE AFTER [WITHOUT]
WITHOUT: a regular expression; files whose name it finds are left out, such as those of a program that came in between."""
import collections
import pathlib
import re
import subprocess
import sys

CODE = (".h", ".cc", ".cu", ".cuh")


def git(*arguments, **more):
    return subprocess.run(["git", *arguments], capture_output=True, check=True, **more).stdout


def texts(commit, without):
    """By name: every source file of the product in that commit."""
    names = [name for name in git("ls-tree", "-r", "--name-only", commit, text=True).splitlines()
             if name.endswith(CODE) and not name.startswith("tests/") and not (without and re.search(without, name))]
    answer = git("cat-file", "--batch", input="".join(f"{commit}:{name}\n" for name in names).encode())
    found, at = {}, 0
    for name in names:
        begin = answer.index(b"\n", at) + 1
        at = begin + int(answer[at:begin].split()[2]) + 1
        found[name] = answer[begin:at - 1].decode()
    return found


def room_of(name):
    return str(pathlib.PurePosixPath(name).parent)


def included(text):
    return [name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, flags=re.M) if "/" in name]


def totals(files):
    lines = [text.count("\n") for text in files.values()]
    stems = {str(pathlib.PurePosixPath(name).with_suffix("")) for name in files}
    return {"files": len(files), "names (a header and its source have one)": len(stems), "lines": sum(lines),
            "files of fewer than 30 lines": sum(n < 30 for n in lines),
            "files of more than 300 lines": sum(n > 300 for n in lines),
            "includes of our own headers": sum(len(included(text)) for text in files.values()),
            "pairs of rooms, one of which includes the other": len({(room_of(name), room_of(other)) for name, text in
                                                                    files.items() for other in included(text)
                                                                    if room_of(name) != room_of(other)})}


FOLDERS = ("compression", "inter", "diloco", "intra", "wan-sim", "apps", "python")


def by_folder(before, after):
    """Files and lines of each folder, and includes of one by another."""
    def folder_of(name):
        return name.split("/")[0]

    def change(old, new):
        return f"{old:,} -> {new:,}" if old or new else ""

    def edges(files):
        return collections.Counter((folder_of(name), folder_of(other)) for name, text in files.items()
                                   for other in included(text))

    sizes = [{folder: [text.count("\n") for name, text in files.items() if folder_of(name) == folder] for folder in FOLDERS}
             for files in (before, after)]
    was, now = edges(before), edges(after)
    print("| folder | files | lines | includes: its own | " + " | ".join(FOLDERS[:5]) + " |\n" + "|---" * 9 + "|")
    for folder in FOLDERS:
        old, new = (one[folder] for one in sizes)
        others = [change(was[folder, other], now[folder, other]) if other != folder else "" for other in FOLDERS[:5]]
        print(" | ".join([f"| {folder}", change(len(old), len(new)), change(sum(old), sum(new)),
                          change(was[folder, folder], now[folder, folder]), *others]) + " |")


def main():
    without = sys.argv[3] if len(sys.argv) > 3 else None
    before, after = (texts(commit, without) for commit in sys.argv[1:3])
    was, now = totals(before), totals(after)
    print("| | before | after |\n|---|---|---|")
    for what, number in was.items():
        print(f"| {what} | {number:,} | {now[what]:,} |")
    print()
    by_folder(before, after)
    rooms = [collections.Counter(map(room_of, files)) for files in (before, after)]
    print("\nfiles by room, before and after; # is two files after, . two that are gone\n")
    for room in sorted(rooms[0] | rooms[1]):
        old, new = rooms[0][room], rooms[1][room]
        print(f"    {room:24} {old:3} {new:3}  {'#' * (new // 2)}{'.' * ((old - new) // 2)}")


if __name__ == "__main__":
    main()
