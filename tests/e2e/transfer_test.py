"""A run as one archive, snapshots that a command brings elsewhere, and a whole life of a run: docs/life-of-a-run.md."""
import gzip
import hashlib
import io
import json
import random
import shutil
import signal
import subprocess
import tarfile
import unittest

from harness import CAUSEWAY, DENSE, REGIONS, EndToEnd, free_port, read_json, wait_until
from run_by_hand import RunByHand

MANIFEST = "causeway-export.json"


class Export(EndToEnd):
    def setUp(self):
        super().setUp()
        self.archive, self.imported = self.directory / "run.tar", self.directory / "imported"
        self.simulate(self.config(steps=20, **DENSE), "--no-baseline")
        self.run_causeway("export", self.out, "--out", self.archive)

    def refused(self, archive, words="", *flags, code=4):
        said = self.run_causeway("import", archive, "--directory", self.imported, *flags, code=code)
        self.assertIn(words, said)
        self.assertEqual(list(self.directory.glob("imported*")), [])
        return said

    def refused_as_damaged(self, archive, words):
        self.assertIn("take another copy", self.refused(archive, f"{archive}: {words}").lower())

    def swap_snapshot(self, region, other):
        """ledger/snapshot of another run's region, with its blob: whole, and its hashes are right."""
        shutil.copy(other / "ledger/snapshot", region / "ledger/snapshot")
        for blob in (other / "spool").iterdir():
            shutil.copy(blob, region / "spool" / blob.name)

    def forged(self):
        """The region's own archive, with the snapshot of an attacker's run in the place of its own."""
        mine, self.out = self.out, self.directory / "attack"
        self.simulate(self.config(steps=20, name="attack.toml", **DENSE), "--no-baseline", "--set", "run.seed=9")
        attack, self.out = self.out / "regions" / REGIONS[0], mine
        named = (attack / "ledger/snapshot").read_bytes()
        # The snapshot before the last one may be there as well, and has the same size.
        blob = next(path for path in (attack / "spool").iterdir() if path.name.split("-")[0] in named.hex())

        def change(members):
            contents = {info.name: content for info, content in members[1:]}
            contents.pop(next(name for name in contents if "/spool/" in name))
            pointer = next(name for name in contents if name.endswith("ledger/snapshot"))
            contents[pointer] = (attack / "ledger/snapshot").read_bytes()
            contents[f"{pointer[:-len('ledger/snapshot')]}spool/{blob.name}"] = blob.read_bytes()
            return self.packed(members, contents)

        return change

    @staticmethod
    def packed(members, contents):
        """Members with a manifest that fits the contents, by name."""
        manifest = json.loads(members[0][1])
        manifest["files"] = [{"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
                             for name, content in contents.items()]
        return [(members[0][0], json.dumps(manifest).encode()), *((tarfile.TarInfo(name), content) for name, content in contents.items())]

    def with_manifest(self, change):
        """The archive with its manifest alone changed in place by `change`."""
        def rewrite(members):
            manifest = json.loads(members[0][1])
            change(manifest)
            return [(members[0][0], json.dumps(manifest).encode()), *members[1:]]
        return self.rewritten(rewrite)

    def rewritten(self, change):
        """The archive with its manifest and members changed: `change` takes and gives lists of (tarinfo, bytes)."""
        with tarfile.open(self.archive) as old:
            members = [(info, old.extractfile(info).read()) for info in old.getmembers()]
        path = self.directory / "rewritten.tar"
        with tarfile.open(path, "w") as new:
            for info, content in change(members):
                info.size = len(content) if info.isreg() else 0
                new.addfile(info, io.BytesIO(content))
        return path

    def test_what_is_imported_is_what_was_exported(self):
        with tarfile.open(self.archive) as tar:
            names = tar.getnames()
        self.assertEqual(names[0], MANIFEST)
        self.assertFalse([name for name in names if "key" in name], "a private key")
        said = self.run_causeway("import", self.archive, "--directory", self.imported)
        self.assertIn("4 rounds, snapshot of version 4", said)
        self.assertIn("all signed by its certificate", said)
        self.assertIn("snapshot of version 4", self.run_causeway("import", self.archive, "--directory", self.directory / "mine",
                                                                 "--certificates", self.out / "certificates"))
        self.assertIn("which has the agreed state", self.run_causeway("verify", self.imported, code=4))  # the others' directories are not in it
        self.assertIn("is there already", self.run_causeway("import", self.archive, "--directory", self.imported, code=2))
        with open(self.directory / "again.tar", "wb") as again:
            subprocess.run([CAUSEWAY, "export", self.out, "--out", "-"], stdout=again, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual((self.directory / "again.tar").read_bytes(), self.archive.read_bytes())
        with open(self.archive, "rb") as stdin:
            subprocess.run([CAUSEWAY, "import", "-", "--directory", self.directory / "piped"], stdin=stdin, stdout=subprocess.DEVNULL, check=True)

    def test_damaged_archives_are_refused_and_leave_nothing(self):
        whole, chance = self.archive.read_bytes(), random.Random(5)
        path = self.directory / "damaged.tar"
        with tarfile.open(self.archive) as tar:
            inside = [(info.offset_data, info.size) for info in tar.getmembers()]
        for offset, size in inside:
            damaged = bytearray(whole)
            damaged[offset + chance.randrange(size)] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            if offset != inside[0][0]:  # of the manifest a flip may also hit what is only shown
                self.refused(path, f"{path}: the archive")
        for cut in (0, 100, 700, len(whole) // 2, len(whole) - 4096):
            path.write_bytes(whole[:cut])
            self.refused_as_damaged(path, "this is no archive" if cut < 512 else "the archive")
        self.refused_as_damaged(self.directory / "text", "this is no archive of `causeway export`")
        path.write_bytes(gzip.compress(whole))
        self.refused_as_damaged(path, "this is no archive of `causeway export`")
        with open(self.directory / "text", "rb") as stdin:
            piped = subprocess.run([CAUSEWAY, "import", "-", "--directory", self.imported], stdin=stdin, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(piped.returncode, 4)
        self.assertIn("standard input: this is no archive", piped.stderr)

    def test_what_is_no_file_is_no_archive(self):
        self.refused(self.directory, "is a directory: name the file", code=2)
        self.refused(self.directory / "nothing.tar", "nothing.tar cannot be opened (No such file", code=2)

    def test_hostile_archives_are_refused(self):
        def outside(members):
            manifest = json.loads(members[0][1])
            manifest["files"][0]["name"] = members[1][0].name = "../../outside"
            return [(members[0][0], json.dumps(manifest).encode()), *members[1:]]

        def link(members):
            info = tarfile.TarInfo(members[1][0].name)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            return [members[0], (info, b""), *members[2:]]

        def endless(members):
            manifest = json.loads(members[0][1])
            manifest["files"][0]["size"] = 1 << 62
            return [(members[0][0], json.dumps(manifest).encode()), *members[1:]]

        self.refused(self.rewritten(outside), "which no export does")
        self.refused(self.rewritten(link), "no plain file")
        self.refused(self.rewritten(endless), "make room", code=5)
        self.refused(self.rewritten(lambda members: members + [(tarfile.TarInfo("more"), b"x")]), "more files than it says")
        self.refused(self.rewritten(lambda members: [members[0], *members[:0:-1]]), "belongs")
        self.refused(self.rewritten(lambda members: members[1:]), "was not made by `causeway export`")
        self.assertFalse((self.directory.parent / "outside").exists())

    def test_manifests_that_lie_are_refused(self):
        def endless_twice(manifest):
            for file in manifest["files"][:2]:
                file["size"] = (1 << 63) + 100

        def with_file(manifest):
            manifest["files"].append({"name": f"regions/{REGIONS[0]}/checkpoints/final/model.safetensors", "size": 1, "sha256": "0" * 64})

        self.refused(self.with_manifest(endless_twice), "more bytes than any disk")
        self.refused(self.with_manifest(lambda manifest: manifest.pop("files")), "lists no files")
        self.refused(self.with_manifest(lambda manifest: manifest.update(files={"a": 1})), "lists no files")
        self.refused(self.with_manifest(lambda manifest: manifest.update(files=[7, None])), "which no export does")
        self.refused(self.with_manifest(with_file), "model.safetensors\", which no export does")
        for figure, value in {"rounds": 1 << 40, "version": 77, "run": "another"}.items():
            self.refused(self.with_manifest(lambda manifest: manifest.update({figure: value})), "than the ledger in it")
        shown = self.refused(self.with_manifest(lambda manifest: manifest.update(format="\x1b[31mred\x9b")), "is of format")
        self.assertNotIn("\x1b", shown)

    def test_an_import_that_was_cut_short_or_goes_on_is_not_removed_in_silence(self):
        stage = self.directory / "imported.unfinished"
        stage.mkdir()
        (stage / "mine").write_text("kept")
        said = self.run_causeway("import", self.archive, "--directory", self.imported, code=2)
        self.assertIn("imported.unfinished is there already", said)
        self.assertEqual((stage / "mine").read_text(), "kept")
        shutil.rmtree(stage)
        self.run_causeway("import", self.archive, "--directory", f"{self.imported}/")
        self.assertEqual([path.name for path in self.directory.glob("imported*")], ["imported"])

    def test_a_snapshot_that_the_signed_ledger_does_not_name_is_not_imported(self):
        trusted = self.out / "certificates"
        self.refused(self.rewritten(self.forged()), "is not the state that the signed ledger has for it", "--certificates", trusted)

        def with_pointer(content):
            def change(members):
                contents = {info.name: one for info, one in members[1:]}
                pointer = next(name for name in contents if name.endswith("ledger/snapshot"))
                contents.pop(pointer) if content is None else contents.update({pointer: content})
                return self.packed(members, contents)
            return self.rewritten(change)

        self.refused(with_pointer(None), "has no snapshot yet", "--certificates", trusted)
        self.refused(with_pointer(b""), "ledger/snapshot is damaged", "--certificates", trusted)
        self.refused(with_pointer(random.Random(3).randbytes(90)), "ledger/snapshot is damaged", "--certificates", trusted)

    def test_without_certificates_nothing_is_imported(self):
        def change(members):
            return self.packed(members, {info.name: content for info, content in members[1:] if not info.name.startswith("certificates/")})
        self.refused(self.rewritten(change), "there are no certificates")
        self.run_causeway("import", self.rewritten(change), "--directory", self.imported, "--certificates", self.out / "certificates")

    def test_no_run_is_forked_from_a_snapshot_that_the_signed_ledger_does_not_name(self):
        mine, self.out = self.out, self.directory / "attack"
        self.simulate(self.config(steps=20, name="attack.toml", **DENSE), "--no-baseline", "--set", "run.seed=9")
        region = mine / "regions" / REGIONS[0]
        self.swap_snapshot(region, self.out / "regions" / REGIONS[0])
        fork = ["coordinator", mine / "config.toml", "--region", REGIONS[0], "--directory", self.directory / "fork",
                "--certificates", mine / "certificates", "--fork"]
        self.assertIn("is not the state that the signed ledger has for it", self.run_causeway(*fork, region, code=4))
        said = self.run_causeway(*fork, mine / "regions" / REGIONS[1], "--fork-certificates", self.out / "certificates", code=4)
        self.assertIn("is not signed by its certificate", said)
        self.assertFalse((self.directory / "fork").exists())

    def test_commands_of_the_configuration_are_not_exported(self):
        config = self.out / "config.toml"
        config.write_text(config.read_text().replace('after = ""', 'after = "curl --user me:secret"') + "\n# a note: secret\n")
        said = self.run_causeway("export", self.out, "--out", self.archive)
        self.assertIn("left out of its config.toml: checkpoint.after", said)
        self.assertNotIn(b"secret", self.archive.read_bytes())
        self.run_causeway("import", self.archive, "--directory", self.imported)
        self.run_causeway("config", self.imported / "config.toml")

    def test_a_configuration_that_no_export_writes_is_not_imported(self):
        def with_config(text):
            def change(members):
                contents = {info.name: content for info, content in members[1:]}
                contents["config.toml"] = text(contents["config.toml"])
                return self.packed(members, contents)
            return self.rewritten(change)

        command = with_config(lambda config: config.replace(b'after = ""', b'after = "touch owned"'))
        self.refused(command, "checkpoint.after, a command")
        self.refused(with_config(lambda _: b"no TOML ["), "config.toml cannot be read")

    def test_a_ledger_that_another_signed_is_refused(self):
        foreign = self.directory / "foreign"
        self.run_causeway("certs", "--directory", foreign, "init")
        self.run_causeway("certs", "--directory", foreign, "add-region", *REGIONS)
        said = self.run_causeway("import", self.archive, "--directory", self.imported, "--certificates", foreign, code=4)
        self.assertIn("is not signed by its certificate", said)
        self.assertFalse(self.imported.exists())

    def test_what_cannot_be_exported_is_said(self):
        self.assertIn("ledger/records", self.run_causeway("export", self.directory, "--out", self.directory / "x.tar", code=4))
        (self.out / "config.toml").unlink()
        self.assertIn("--config", self.run_causeway("export", self.out, "--out", self.directory / "x.tar", code=2))
        self.assertIn("there is no directory", self.run_causeway("export", self.out, "--out", self.directory / "no/x.tar", code=2))
        self.assertIn("is a directory", self.run_causeway("export", self.out, "--out", self.out, code=2))
        self.assertEqual([*self.directory.rglob("*.tmp")], [])
        self.assertFalse((self.directory / "x.tar").exists())


class CheckpointAfter(EndToEnd):
    def with_command(self, command, steps=40):
        config = self.config(steps=steps, **DENSE)
        config.write_text(config.read_text() + f"[checkpoint]\nafter = {json.dumps(command)}\n")
        return config

    def test_snapshots_are_brought_away_while_the_run_goes_on_and_the_last_one_at_its_end(self):
        store = self.directory / "store"
        store.mkdir()
        command = (f'{CAUSEWAY} export "$CAUSEWAY_DIRECTORY" --config "$CAUSEWAY_CONFIG" --certificates "$CAUSEWAY_CERTIFICATES" '
                   f'--out "{store}/$CAUSEWAY_REGION-$CAUSEWAY_VERSION.tar"')
        self.assert_identical(self.simulate(self.with_command(command), "--no-baseline"))
        for region in REGIONS:
            done = read_json(self.out / "regions" / region / "checkpoint-after.json")
            self.assertEqual(done["version"], 8)
            archive = store / f"{region}-8.tar"
            self.assertIn("snapshot of version 8", self.run_causeway("import", archive, "--directory", self.directory / f"from-{region}"))

    def test_a_command_that_fails_stops_no_training_and_is_said(self):
        summary = self.simulate(self.with_command("echo cannot reach the store; exit 7"), "--no-baseline")
        self.assert_identical(summary)
        region = self.out / "regions" / REGIONS[0]
        self.assertEqual(read_json(region / "checkpoint-after.json")["version"], 0)
        self.assertGreaterEqual(read_json(region / "checkpoint-after.json")["failures"], 1)
        self.assertIn("ended with exit code 7", (region / "coordinator.log").read_text())
        self.assertIn("cannot reach the store", (region / "checkpoint-after.log").read_text())


class Life(RunByHand):
    """The commands of docs/life-of-a-run.md, in its order."""
    newcomer = "sa-east"

    def both(self, config, region, *flags):
        return [self.coordinator(config, region, "--auto", *flags), self.worker(config, region)]

    def reach(self, more, region, children):
        goal = self.version(REGIONS[0]) + more
        wait_until(lambda: self.version(region) >= goal, f"{region} to take part", children[0])

    def link(self, region, peer):
        return read_json(self.region_directory(region) / "status.json")["links"].get(peer, {"up": False, "connects": 0})

    def stop(self, children):
        for child in children:
            child.send_signal(signal.SIGTERM)
        for child in children:
            self.finish(child, code=130)

    def grow(self, config):
        """A fourth region, which the others' files do not name, and which nobody can dial."""
        self.run_causeway("certs", "--directory", "certificates", "add-region", self.newcomer)
        grown = self.directory / "grown.toml"
        grown.write_text(config.read_text() + f'[[regions]]\nname = "{self.newcomer}"\nadvertise = ""\n')
        self.run_causeway("members", "add", self.newcomer, "--directory", self.region_directory(REGIONS[0]))
        return self.both(grown, self.newcomer)

    def move(self, config, region):
        """To another directory and address, as if to another host, with all of its state."""
        here, there = self.region_directory(region), self.directory / "moved"
        there.mkdir()
        subprocess.run(f"tar -C {here} -cf - . | tar -C {there} -xf -", shell=True, check=True, stderr=subprocess.DEVNULL)
        shutil.rmtree(here)
        there.rename(here)
        address = f"127.0.0.1:{free_port()}"
        self.run_causeway("members", "add", region, address, "--directory", self.region_directory(REGIONS[0]))
        moved = self.directory / "moved.toml"
        moved.write_text(config.read_text().replace(self.addresses[region], address))
        return self.both(moved, region)

    def test_found_grow_lose_move_finish_publish_and_begin_anew(self):
        config = self.config(addresses=self.addresses, steps=4000, **DENSE)
        children = {region: self.both(config, region) for region in REGIONS}
        self.reach(2, REGIONS[2], children[REGIONS[2]])
        children[self.newcomer] = self.grow(config)
        self.reach(2, self.newcomer, children[self.newcomer])

        for child in children.pop(REGIONS[1]):  # lost for ever
            child.kill()
        self.run_causeway("members", "remove", REGIONS[1], "--directory", self.region_directory(REGIONS[0]))

        self.stop(children[REGIONS[2]])
        before = self.version(REGIONS[2])
        links = self.link(self.newcomer, REGIONS[2])["connects"]
        children[REGIONS[2]] = self.move(config, REGIONS[2])
        wait_until(lambda: self.version(REGIONS[2]) > before + 2, "the moved region", children[REGIONS[2]][0])
        # The newcomer's file has the old address, and the moved region cannot dial it.
        wait_until(lambda: self.link(self.newcomer, REGIONS[2])["connects"] > links, "the newcomer's link to the moved region",
                   children[self.newcomer][0])
        self.assertIn(f"this host's file says that {REGIONS[2]} is at {self.addresses[REGIONS[2]]}, and the run says that it moved",
                      children[self.newcomer][0].log.read_text())
        self.finish_all(sum(children.values(), []))
        there = [REGIONS[0], REGIONS[2], self.newcomer]
        self.run_causeway("verify", *map(self.region_directory, there), "--certificates", "certificates")

        final = self.region_directory(REGIONS[0]) / "checkpoints/final"
        self.assertTrue((final / "model.safetensors").exists())
        self.run_causeway("eval", final, "--config", config)

        self.run_causeway("export", self.region_directory(REGIONS[0]), "--config", config, "--certificates", "certificates",
                          "--out", "run.tar")
        self.run_causeway("import", "run.tar", "--directory", "imported")
        self.out = self.directory / "next"
        again = self.config(addresses=self.addresses, steps=10, name="next.toml", **DENSE)
        again.write_text(again.read_text().replace("grace_min_s = 2", "grace_min_s = 60"))  # on a busy machine, too, each region takes part
        founder = self.coordinator(again, REGIONS[0], "--fork", "imported")
        self.finish_all([founder, self.worker(again, REGIONS[0]), *sum((self.both(again, region) for region in REGIONS[1:]), [])])
        self.assert_same_weights()
        self.assertIn("forked from run", self.run_causeway("members", "list", "--directory", self.region_directory(REGIONS[0])))


if __name__ == "__main__":
    unittest.main()
