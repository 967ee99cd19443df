"""Where a restart goes on in the data, and with which random numbers, with PyTorch's and torchdata's loaders."""
import importlib.util
import random
import sys
import types
import unittest

import torch
from region_run import TRAINERS, RegionRun
from torch.utils.data import DataLoader, DistributedSampler

from causeway.torch import Run
from causeway.torch.data import Samples

sys.path.insert(0, str(TRAINERS))
import own_samples  # noqa: E402


class Killed(Exception):
    pass


def sampled(run, rows):
    """The sampler takes the run's word for everything."""
    loader = DataLoader(rows, 4, sampler=Samples(run, len(rows), 4), drop_last=True, generator=torch.Generator())
    return loader, lambda number: None


def stateful(run, rows):
    """The loader's state says where a pass stands; the sampler is told which pass it is."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    sampler = DistributedSampler(rows, num_replicas=1, rank=0, seed=5)
    return StatefulDataLoader(rows, 4, sampler=sampler, drop_last=True, generator=torch.Generator()), sampler.set_epoch


def streamed(run, rows):
    import datasets
    from torchdata.stateful_dataloader import StatefulDataLoader
    stream = datasets.Dataset.from_dict({"row": rows}).to_iterable_dataset().shuffle(seed=3, buffer_size=16)
    loader = StatefulDataLoader(stream, 4, drop_last=True, collate_fn=lambda batch: [one["row"] for one in batch],
                                generator=torch.Generator())
    return loader, stream.set_epoch


def needs(*libraries):
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class AfterARestart(RegionRun):
    settings = dict(RegionRun.settings, steps=24, k=4)

    def train(self, out, make_loader, also=False, die_after=None):
        """What each step read and drew. Epochs are of five steps."""
        if out not in self.started:
            self.coordinators += self.start_coordinators(out=out)
            self.started.add(out)
        torch.manual_seed(1)
        random.seed(1)
        model = own_samples.make_model()
        optimizer = own_samples.make_optimizer(model.parameters())
        rows, seen = list(range(20)), []
        run = Run(model, optimizer, directory=self.region(out=out), samples_per_step=4, save_rounds=1)
        loader, begin_pass = make_loader(run, rows)
        if also:
            run = Run(model, optimizer, directory=self.region(out=out), samples_per_step=4, save_rounds=1, also={"data": loader})
        with run:
            while not run.over:
                begin_pass(run.step.sample // len(rows))
                for batch in loader:
                    at = run.step.schedule_step
                    if at == die_after:
                        return seen
                    seen.append((at, list(map(int, batch)), random.random(), float(torch.rand(()))))
                    own_samples.loss_of(model, 0, at).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if not run.after_step(0.0):
                        break
        return seen

    def setUp(self):
        super().setUp()
        self.started = {"run"}

    def check(self, make_loader, also=False):
        undisturbed = self.train("run", make_loader, also)
        self.assertEqual([step for step, *_ in undisturbed], list(range(24)))
        broken = self.train("broken", make_loader, also, die_after=16)  # the first step after four rounds
        self.assertEqual(broken + self.train("broken", make_loader, also), undisturbed)

    def test_samples_go_on_where_the_run_is(self):
        self.check(sampled)

    @needs("torchdata")
    def test_a_stateful_loader_goes_on_where_it_was(self):
        self.check(stateful, also=True)

    @needs("torchdata", "datasets")
    def test_a_streamed_dataset_goes_on_where_it_was(self):
        self.check(streamed, also=True)


class Order(unittest.TestCase):
    """Samples, without a run."""

    class At:
        def __init__(self, sample, part, parts, pass_begin=0, pass_number=0):
            self.step = type("Step", (), dict(sample=sample, part=part, parts=parts, pass_begin=pass_begin, pass_number=pass_number))

    def test_regions_and_ranks_share_a_pass_and_read_all_of_it(self):
        read = [list(Samples(self.At(0, part, 3), 60, 4, rank=rank, ranks=2)) for part in range(3) for rank in range(2)]
        self.assertEqual(sorted(sum(read, [])), list(range(60)))
        self.assertEqual({len(one) for one in read}, {10})

    def test_another_pass_has_another_order_and_a_later_start_its_rest(self):
        first, second = (list(Samples(self.At(sample, 0, 2), 20, 5)) for sample in (0, 10))
        self.assertNotEqual(first, second)
        self.assertEqual(list(Samples(self.At(15, 0, 2), 20, 5)), second[5:])

    def test_a_step_that_begins_off_its_place_goes_on_in_the_pass_that_follows(self):
        """As after a restart with another samples_per_step. Less than a batch of it would be dropped, and a loop would never end."""
        first, second = (list(Samples(self.At(sample, 0, 2), 20, 5)) for sample in (0, 10))
        self.assertEqual(list(Samples(self.At(7, 0, 2), 20, 5)), first[7:] + second[:2])

    def test_a_step_is_as_large_for_every_rank(self):
        with self.assertRaisesRegex(ValueError, "samples_per_step is 5 for 2 ranks"):
            Samples(self.At(0, 0, 2), 20, 5, ranks=2)

    def test_nothing_is_read_once_the_run_is_over(self):
        over = self.At(0, 0, 1)
        over.step = None
        self.assertEqual(list(Samples(over, 20, 4)), [])

    def test_fewer_samples_than_regions_are_refused(self):
        with self.assertRaisesRegex(ValueError, "10 samples for 3 regions: each needs 4 at least"):
            list(Samples(self.At(0, 0, 3), 10, 4))

    def test_a_pass_has_whole_steps(self):
        """What is left over would make no batch, and a loop over it would never end."""
        one = Samples(self.At(0, 1, 3), 1000, 16)
        self.assertEqual((len(one), len(list(one))), (320, 320))
        self.assertEqual(len(list(Samples(self.At(320, 1, 3), 1000, 16))), 320)


class Divided(unittest.TestCase):
    """Regions a and b share the data, and c joins after 50 steps: from then on a loader reads the new parts. Batches are of 4."""
    length, batch, joined = 1200, 4, 50

    def at(self, step, part):
        """A region's step `step`; part 2 is c, whose numbers begin when it joins."""
        sample = self.batch * step
        before = step < self.joined
        begin = 0 if before else self.batch * self.joined
        return dict(sample=sample - (begin if part == 2 else 0), part=part, parts=2 if before else 3, pass_number=0 if before else 1,
                    pass_begin=0 if part == 2 else begin)

    def read(self, part, first, steps, **settings):
        """The batch of each step, of a loop over passes."""
        of = type("Region", (), {"step": None})()
        loader = DataLoader(range(self.length), self.batch, sampler=Samples(of, self.length, self.batch), drop_last=True,
                            generator=torch.Generator(), **settings)
        batches = []
        of.step = types.SimpleNamespace(**self.at(first, part))
        while True:
            for batch in loader:
                batches.append(batch.tolist())
                if len(batches) == steps:
                    return batches
                of.step = types.SimpleNamespace(**self.at(first + len(batches), part))

    def check_parts(self, stale, **settings):
        """`stale`: batches that the loader may have of the division before."""
        a, b = (self.read(part, 0, self.joined + 100, **settings)[self.joined + stale:] for part in (0, 1))
        c = self.read(2, self.joined, 100)
        a, b, c = (sum(one, []) for one in (a, b, c))
        self.assertEqual((len(set(c)), len(set(a) & set(b)), len(set(c) & {*a, *b})), (400, 0, 0))

    def test_no_sample_is_in_two_parts_of_the_new_pass(self):
        self.check_parts(0)

    def test_nor_with_workers_that_fetch_ahead_but_for_what_they_have(self):
        self.check_parts(4, num_workers=2, prefetch_factor=2, multiprocessing_context="fork")

    def test_every_step_reads_what_it_would_after_a_restart(self):
        undisturbed = self.read(0, 0, 250)  # over a pass's end
        for first in (0, 49, 50, 51, 149, 150, 200):
            self.assertEqual(self.read(0, first, 250 - first), undisturbed[first:])

    def test_so_does_one_with_workers_that_fetch_ahead(self):
        undisturbed, fetched = self.read(0, 0, 140), self.read(0, 0, 140, num_workers=2, multiprocessing_context="fork")
        self.assertEqual(fetched[:50] + fetched[54:], undisturbed[:50] + undisturbed[54:])


if __name__ == "__main__":
    unittest.main()
