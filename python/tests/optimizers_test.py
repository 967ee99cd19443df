"""A program that was changed between two starts: with another optimizer, or with the same and other settings."""
import unittest

import torch
import trainer_directory
from trainer_directory import sha256_of

from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import GIVEN, KINDS, TrainerState


class Changed(trainer_directory.InADirectory):
    def start(self, kind, scheduler=None, parameters=None, **settings):
        """Another life of the program."""
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = kind(self.model.parameters() if parameters is None else parameters(self.model), **settings)
        self.scheduler = scheduler(self.optimizer) if scheduler else torch.optim.lr_scheduler.LambdaLR(
            torch.optim.SGD(self.model.parameters(), lr=1.0), lambda step: 1.0)  # of another optimizer
        return self.state()

    def saved_by(self, kind, **settings):
        state = self.start(kind, **settings)
        self.train()
        state.save(8)

    def as_an_earlier_version_wrote_it(self):
        file = self.one_file()
        state = torch.load(file, weights_only=True)
        del state[KINDS], state[GIVEN]
        torch.save(state, unnamed := self.checkpoints / "unnamed")
        file.unlink()
        unnamed.rename(self.checkpoints / f"trainer-8-rank-0-of-1-{sha256_of(unnamed)}.pt")

    def test_another_optimizer_is_refused_by_name(self):
        self.saved_by(torch.optim.AdamW, lr=0.1)
        for kind in (torch.optim.SGD, torch.optim.Adam):
            with self.assertRaisesRegex(ValueError, f"trainer-8-.* has optimizer as the state of AdamW, and the program's is {kind.__name__}"
                                                    ": give Run the same optimizer and `also` as before, or delete the file"):
                self.start(kind, lr=0.1).resume(8)

    def test_so_it_is_where_an_earlier_version_did_not_keep_its_name(self):
        for before, now, lacks in ((torch.optim.AdamW, torch.optim.SGD, "dampening, momentum"), (torch.optim.SGD, torch.optim.AdamW, "betas")):
            self.saved_by(before, lr=0.1)
            self.as_an_earlier_version_wrote_it()
            with self.assertRaisesRegex(ValueError, f"has optimizer without .*{lacks}.*give Run the same optimizer"):
                self.start(now, lr=0.1).resume(8)

    def test_the_same_goes_on_from_a_file_of_an_earlier_version(self):
        self.saved_by(torch.optim.AdamW, lr=0.1)
        self.as_an_earlier_version_wrote_it()
        with self.assertNoLogs("causeway"):
            self.assertEqual(self.start(torch.optim.AdamW, lr=0.2).resume(8), 8)

    def test_another_setting_is_told_at_every_start_and_the_saved_one_counts(self):
        self.saved_by(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)
        for sample in (8, 16):
            state = self.start(torch.optim.AdamW, lr=5e-4, weight_decay=0.1)
            with self.assertLogs("causeway", "WARNING") as said:
                state.resume(sample)
            self.assertEqual(len(said.output), 1)
            self.assertIn("lr of optimizer is 0.001, as in the saved state, and not 0.0005, as the program gives it now",
                          said.output[0])
            self.train()
            state.save(16)
        self.assertEqual(self.optimizer.param_groups[0]["lr"], 1e-3)

    def test_of_several_groups_the_group_is_named(self):
        def groups(last):
            return lambda model: [{"params": [model.weight]}, {"params": [model.bias], "lr": last}]

        self.saved_by(torch.optim.SGD, parameters=groups(0.1), lr=0.2)
        with self.assertLogs("causeway", "WARNING") as said:
            self.start(torch.optim.SGD, parameters=groups(torch.tensor(0.3)), lr=0.2).resume(8)
        self.assertIn("lr of optimizer, group 1 is 0.1, as in the saved state", said.output[0])

    def test_a_group_that_is_added_in_between_is_told_of_once_and_a_restart_without_it_refused(self):
        def head(model):
            return [model.bias]

        def both(model):
            return [{"params": [model.bias]}, {"params": [model.weight]}]

        state = self.start(torch.optim.AdamW, parameters=head, lr=0.1)
        self.optimizer.add_param_group({"params": [self.model.weight]})
        self.train()
        with self.assertLogs("causeway", "WARNING") as said:
            state.save(8)
            state.save(16)
        self.assertEqual(len(said.output), 1)
        self.assertIn("optimizer has 2 groups of parameters now, and had 1 when the run was entered: a restart is refused", said.output[0])
        with self.assertRaisesRegex(ValueError, "trainer-16-.* has optimizer with 2 groups of 1 and 1 parameters, and the program's has 1 group "
                                                "of 1 parameters: .*or delete the file to begin the optimizer anew"):
            self.start(torch.optim.AdamW, parameters=head, lr=0.1).resume(16)
        state = self.start(torch.optim.AdamW, parameters=both, lr=0.1)
        self.assertEqual(state.resume(16), 16)
        with self.assertNoLogs("causeway"):
            state.save(24)

    def test_what_the_program_or_a_scheduler_moves_is_nothing_to_tell_of(self):
        state = self.start(torch.optim.SGD, lr=0.1)
        self.train()
        self.optimizer.param_groups[0]["lr"] = 0.05  # a schedule of the program's own
        state.save(8)
        with self.assertNoLogs("causeway"):
            self.start(torch.optim.SGD, lr=0.1).resume(8)
            self.start(torch.optim.SGD, lr=0.05).resume(8)
        state = self.start(torch.optim.SGD, lambda one: torch.optim.lr_scheduler.LinearLR(one, 0.1), lr=0.1)
        self.train()
        state.save(16)
        with self.assertNoLogs("causeway"):
            self.start(torch.optim.SGD, lambda one: torch.optim.lr_scheduler.LinearLR(one, 0.5), lr=0.2).resume(16)

    def test_moments_and_master_weights_stay_as_precise_as_they_were(self):
        class Masters(torch.optim.SGD):
            """Keeps its moments and its parameters in fp32, whatever the model has, as optimizers for bf16 do."""

            def step(self):
                for p in self.param_groups[0]["params"]:
                    own = self.state[p]
                    if not own:
                        own["moment"], own["master_param"] = torch.zeros_like(p, dtype=torch.float32), p.detach().float()
                    own["moment"].mul_(0.9).add_(p.grad)
                    own["master_param"].sub_(own["moment"], alpha=0.01)
                    p.data.copy_(own["master_param"])

        def start():
            self.model = torch.nn.Linear(3, 2).bfloat16()
            self.optimizer = Masters(self.model.parameters(), lr=0.1)
            self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1.0)
            return self.state()

        state = start()
        for _ in range(3):
            self.optimizer.zero_grad()
            self.model(torch.rand(4, 3).bfloat16()).sum().backward()
            self.optimizer.step()
        state.save(8)
        before = [dict(self.optimizer.state[p]) for p in self.model.parameters()]
        start().resume(8)
        for p, expected in zip(self.model.parameters(), before):
            for name, value in expected.items():
                self.assertEqual(self.optimizer.state[p][name].dtype, torch.float32)
                self.assertTrue(torch.equal(self.optimizer.state[p][name], value), name)

    def test_whole_numbers_and_nested_state_keep_their_types(self):
        class Nested(torch.optim.SGD):
            """With moments in 8 bits, and preconditioners in lists and dictionaries, as SOAP and Shampoo have them."""

            def step(self):
                for p in self.param_groups[0]["params"]:
                    one = torch.full_like(p, 1 + 2 ** -12, dtype=torch.float32)
                    self.state[p] = {"eight": torch.full_like(p, 3, dtype=torch.int8), "count": torch.tensor(2 ** 40),
                                     "list": [one, {"in it": one}], "tuple": (one, 4)}

        def start():
            self.model = torch.nn.Linear(3, 2).bfloat16()
            self.optimizer = Nested(self.model.parameters(), lr=0.1)
            return TrainerState(self.directory, Solo(), [self.optimizer], {})

        state = start()
        self.optimizer.step()
        state.save(8)
        before = [self.optimizer.state[p] for p in self.model.parameters()]
        start().resume(8)
        for p, expected in zip(self.model.parameters(), before):
            torch.testing.assert_close(self.optimizer.state[p], expected, rtol=0, atol=0)  # types too

    def test_what_an_optimizer_keeps_for_all_parameters_and_as_texts_comes_back(self):
        class Counts(torch.optim.SGD):
            """With state that is of no parameter, and texts in that of each."""

            def step(self):
                self.state["steps"] = self.state.get("steps", 0) + 1
                self.state["scales"] = {"all": torch.full((1,), 2.0)}
                for p in self.param_groups[0]["params"]:
                    self.state[p] = {"kind": "matrix" if p.ndim > 1 else "vector", "moment": torch.ones_like(p)}

        def start():
            self.model = torch.nn.Linear(3, 2)
            self.optimizer = Counts(self.model.parameters(), lr=0.1)
            return TrainerState(self.directory, Solo(), [self.optimizer], {})

        state = start()
        self.optimizer.step()
        state.save(8)
        start().resume(8)
        self.assertEqual((self.optimizer.state["steps"], self.optimizer.state["scales"]), (1, {"all": torch.full((1,), 2.0)}))
        self.assertEqual([self.optimizer.state[p]["kind"] for p in self.model.parameters()], ["matrix", "vector"])

    def test_moments_that_an_optimizer_decodes_when_it_loads_stay_decoded(self):
        class Coded(torch.optim.SGD):
            """Keeps its moments in 8 bits on disk alone."""

            def step(self):
                for p in self.param_groups[0]["params"]:
                    self.state[p] = {"moment": torch.full_like(p, 0.5)}

            def state_dict(self):
                kept = super().state_dict()
                return {**kept, "state": {n: {"moment": (100 * one["moment"]).to(torch.int8)} for n, one in kept["state"].items()}}

            def load_state_dict(self, kept):
                super().load_state_dict(kept)
                for one in self.state.values():
                    one["moment"] = one["moment"].float() / 100

        def start():
            self.model = torch.nn.Linear(3, 2)
            self.optimizer = Coded(self.model.parameters(), lr=0.1)
            return TrainerState(self.directory, Solo(), [self.optimizer], {})

        state = start()
        self.optimizer.step()
        state.save(8)
        start().resume(8)
        for p in self.model.parameters():
            self.assertTrue(torch.equal(self.optimizer.state[p]["moment"], torch.full_like(p, 0.5)))

    def test_moments_follow_a_parameter_that_has_another_type_now(self):
        for before, now in ((torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
            def start(dtype):
                self.model = torch.nn.Linear(3, 2).to(dtype)
                self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
                return TrainerState(self.directory, Solo(), [self.optimizer], {})

            def step(dtype):
                self.model(torch.rand(4, 3).to(dtype)).sum().backward()
                self.optimizer.step()

            state = start(before)
            step(before)
            state.save(8)
            start(now).resume(8)
            step(now)

    def test_of_another_region_are_not_taken_up_and_stay(self):
        def state(region):
            model = torch.nn.Linear(3, 2)
            return TrainerState(self.directory, Solo(), [torch.optim.SGD(model.parameters(), lr=0.1)], {}, region)

        state("eu").save(8)
        with self.assertRaisesRegex(ValueError, "is of region eu, not of us: if two disks are mounted the wrong way round"):
            state("us").resume(0)
        self.assertEqual(state("eu").resume(8), 8)

    def test_that_run_was_given_none_is_told_at_a_restart(self):
        state = TrainerState(self.directory, Solo(), [], {})
        with self.assertNoLogs("causeway"):
            state.resume(0)
        with self.assertLogs("causeway", "WARNING") as said:
            state.resume(8)
        self.assertIn("Run was given no optimizer, so none of its state was kept: it begins anew", said.output[0])


if __name__ == "__main__":
    unittest.main()
