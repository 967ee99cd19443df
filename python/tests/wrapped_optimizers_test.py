"""Optimizers that have another one in them, as SAM and Lookahead do: what of its state is kept, and begun anew."""
import copy
import logging
import re
import tempfile
import unittest

import torch
import torch.distributed.fsdp
from optimizer_doubles import Around, Delegates, Sam, step
from worker_double import a_run, steps

from causeway.torch import Run, arguments
from causeway.torch.optimizers import Begun, held
from causeway.torch.parameters import Parameters
from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Within(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)

    def train(self, optimizer, also=(), value=lambda round: 1.0):
        with a_run(*PLAN) as (_, directory), Run(self.model, optimizer, directory=directory, also=also) as run:
            for one in run:
                step(self.model, optimizer, value(one.round))
                with torch.no_grad():
                    self.model.weight.nan_to_num_(float("nan") if one.round == 0 and value(0) != 1.0 else 0.0)

    def test_state_that_is_left_out_is_told_of_with_what_to_do(self):
        with self.assertLogs("causeway", "WARNING") as said:
            self.train(Sam(self.model.parameters(), torch.optim.AdamW))
        self.assertEqual(len(said.output), 1)
        self.assertIn("optimizer, a Sam, has another optimizer in it, an AdamW, and its state_dict() leaves the state of that one out: a restart "
                      "begins that anew. Keep it too: also={\"base_optimizer\": optimizer.base_optimizer}", said.output[0])

    def told(self, *optimizers):
        """What is said after a step."""
        for one in optimizers:
            step(self.model, one)
        with tempfile.TemporaryDirectory() as directory, self.assertLogs("causeway", "WARNING") as said:
            TrainerState(directory, Solo(), list(optimizers), {}).check_after_a_step()
        return said.output

    def test_of_several_each_is_told_with_a_name_of_its_own(self):
        said = self.told(*(Sam(self.model.parameters(), torch.optim.AdamW) for _ in range(2)))
        for place, one in enumerate(said):
            self.assertIn(f"also={{\"base_optimizer {place}\": optimizers[{place}].base_optimizer}}", one)

    def test_the_outer_one_is_named_and_not_what_it_wraps_and_the_name_is_one_that_run_takes(self):
        class Lookahead(Sam):
            def __init__(self, parameters, base):
                super().__init__(parameters, base)
                self.optimizer = self.__dict__.pop("base_optimizer")

            def step(self, closure=None):
                self.optimizer.step()

        (said,) = self.told(Lookahead(self.model.parameters(), torch.optim.AdamW))
        self.assertRegex(said, "optimizer, a .*Lookahead, has another optimizer in it, an AdamW")
        name, attribute = re.search(r"also=\{\"(.*)\": optimizer\.(.*)\}", said).groups()
        self.assertEqual(attribute, "optimizer")
        self.assertEqual(set(arguments.also({name: torch.optim.SGD(self.model.parameters())})), {name})

    def test_ones_in_lists_and_dictionaries_are_found(self):
        class Many(Sam):
            def __init__(self, parameters, base):
                super().__init__(parameters, base)
                self.others = [self.__dict__.pop("base_optimizer")]
                self.named = {"second": base(self.param_groups)}

            def step(self, closure=None):
                for one in (*self.others, *self.named.values()):
                    one.step()

        many = Many(self.model.parameters(), torch.optim.AdamW)
        self.assertEqual(held(many), {"others[0]": many.others[0], "named['second']": many.named["second"]})
        self.assertEqual(len(self.told(many)), 2)

    def test_state_that_is_kept_as_copies_is_not(self):
        """Such as in the host's memory."""
        class Copies(Around):
            def state_dict(self):
                return {"base": copy.deepcopy(self.base_optimizer.state_dict()), "own": copy.deepcopy(list(self.state.values()))}

        class KeptAsCopies(torch.optim.AdamW):
            def state_dict(self):
                return copy.deepcopy(super().state_dict())

        sam = Sam(self.model.parameters(), KeptAsCopies)
        with self.assertNoLogs("causeway", "WARNING"):
            self.train(Copies(self.model.parameters(), torch.optim.AdamW))
            self.train(sam, also={"base_optimizer": sam.base_optimizer})

    def test_state_that_is_left_out_of_copies_is_told_of(self):
        class Copies(Sam):
            def state_dict(self):
                return copy.deepcopy(super().state_dict())

        self.assertEqual(len(self.told(Copies(self.model.parameters(), torch.optim.AdamW))), 1)

    def test_state_that_is_kept_is_not(self):
        sam = Sam(self.model.parameters(), torch.optim.AdamW)
        with self.assertNoLogs("causeway", "WARNING"):
            self.train(sam, also={"base_optimizer": sam.base_optimizer})
            self.train(Around(self.model.parameters(), torch.optim.AdamW))
            self.train(Sam(self.model.parameters(), torch.optim.SGD))  # it has none

    def test_one_that_leaves_all_state_to_it_is_not_taken_for_idle(self):
        plan = [steps(0, 4, 0, 0)]
        with a_run(*plan) as (_, directory), self.assertNoLogs("causeway", "WARNING"):
            optimizer = Delegates(self.model.parameters(), torch.optim.AdamW)
            with Run(self.model, optimizer, directory=directory) as run:
                for one in run:
                    step(self.model, optimizer)

    def test_nan_in_it_goes_with_the_round(self):
        sam = Sam(self.model.parameters(), torch.optim.AdamW)
        with self.assertWarnsRegex(UserWarning, "begins its optimizer anew"):
            self.train(sam, {"base": sam.base_optimizer}, lambda round: float("nan") if round == 0 else 1.0)
        for state in sam.base_optimizer.state.values():
            self.assertTrue(torch.isfinite(state["exp_avg"]).all())

    def test_ones_that_know_each_other_are_found_once(self):
        sam = Sam(self.model.parameters(), torch.optim.AdamW)
        sam.base_optimizer.above = sam
        sam.again = sam.base_optimizer
        self.assertEqual({id(one) for one in held(sam).values()}, {id(sam.base_optimizer)})
        self.train(sam, {"base": sam.base_optimizer})

    def test_each_of_a_chain_is_copied_once(self):
        bottom = Sam(self.model.parameters(), torch.optim.AdamW)
        middle = Sam(self.model.parameters(), lambda *_, **__: bottom)
        top = Begun(Sam(self.model.parameters(), lambda *_, **__: middle))
        self.assertEqual([one.optimizer for one in top.held], [middle, bottom, bottom.base_optimizer])
        self.assertEqual([one.held for one in top.held], [[], [], []])


class Masters(torch.optim.SGD):
    """In fp32, of parameters in bf16."""

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            own = self.state[p].setdefault("master_param", p.detach().float())
            own.sub_(p.grad, alpha=2 ** -12)
            p.data.copy_(own)


class OwnWeights(unittest.TestCase):
    def test_in_fp32_of_the_one_in_it_are_exchanged(self):
        """Otherwise its next step would take the regions' mean back."""
        model = torch.nn.Linear(2, 2).bfloat16()
        with torch.no_grad():
            model.weight.fill_(1.0)
        sam = Sam(model.parameters(), Masters)
        parameters = Parameters(model, [sam], Solo(), 1, "average")
        model(torch.ones(1, 2).bfloat16()).sum().backward()
        sam.step()
        parameters.take()
        host = parameters.hosts()["weight"]
        self.assertEqual(host.unique().tolist(), [1 - 2 ** -12])
        host.fill_(1 + 2 ** -12)
        parameters.give(0)
        self.assertEqual(sam.base_optimizer.state[model.weight]["master_param"].unique().tolist(), [1 + 2 ** -12])


class AfterARestart(unittest.TestCase):
    def restarted(self, kind, also, base, model):
        """An optimizer after a step, and the one that goes on from its state."""
        def made():
            optimizer = kind(model.parameters(), base)
            return optimizer, TrainerState(directory, Solo(), [optimizer], also(optimizer))

        with tempfile.TemporaryDirectory() as directory:
            optimizer, state = made()
            step(model, optimizer)
            state.save(8)
            again, state = made()
            self.assertEqual(state.resume(8), 8)
        return optimizer.base_optimizer, again.base_optimizer

    FORMS = ((Sam, lambda optimizer: {"base_optimizer": optimizer.base_optimizer}), (Around, lambda optimizer: {}))

    def check(self, kind, also):
        """Its moments are those of one that was not stopped."""
        model = torch.nn.Linear(2, 2)
        before, after = self.restarted(kind, also, torch.optim.AdamW, model)
        for p in model.parameters():
            self.assertTrue(torch.equal(after.state[p]["exp_avg"], before.state[p]["exp_avg"]))

    def test_what_also_has_of_it_comes_back(self):
        self.check(*self.FORMS[0])

    def test_so_does_state_in_a_form_of_its_own(self):
        self.check(*self.FORMS[1])

    def test_one_that_was_not_kept_before_begins_anew_and_says_so(self):
        """Whoever follows the warning adds it to a run under way."""
        model = torch.nn.Linear(2, 2)
        with tempfile.TemporaryDirectory() as directory:
            optimizer = Sam(model.parameters(), torch.optim.AdamW)
            step(model, optimizer)
            TrainerState(directory, Solo(), [optimizer], {}).save(8)
            again = Sam(model.parameters(), torch.optim.AdamW)
            with self.assertLogs("causeway", "WARNING") as said:
                self.assertEqual(TrainerState(directory, Solo(), [again], {"base_optimizer": again.base_optimizer}).resume(8), 8)
            self.assertEqual(len(said.output), 1)
            self.assertIn("has no state of base_optimizer, which Run was not given then: it begins anew", said.output[0])
            self.assertIn("old_p", again.state[model.weight])
            with self.assertRaisesRegex(ValueError, "has no state of another"):
                TrainerState(directory, Solo(), [again], {"another": torch.optim.AdamW(model.parameters())}).resume(8)

    def test_its_weights_in_fp32_are_not_rounded_to_the_parameters_type(self):
        for form in self.FORMS:
            model = torch.nn.Linear(2, 2).bfloat16()
            before, after = self.restarted(*form, Masters, model)
            for p in model.parameters():
                self.assertTrue(torch.equal(after.state[p]["master_param"], before.state[p]["master_param"]), form)
                self.assertEqual(after.state[p]["master_param"].dtype, torch.float32)

    def test_its_divided_moments_are_divided_again(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        for form in self.FORMS:
            model = torch.distributed.fsdp.fully_shard(torch.nn.Linear(2, 2))
            before, after = self.restarted(*form, torch.optim.AdamW, model)
            for p in model.parameters():
                self.assertIsInstance(after.state[p]["exp_avg"], type(p.data))
                self.assertTrue(torch.equal(after.state[p]["exp_avg"].full_tensor(), before.state[p]["exp_avg"].full_tensor()))
            model(torch.ones(1, 2)).sum().backward()
            after.step()

    def test_divided_state_in_a_form_that_is_not_known_is_refused(self):
        """Rather than given as what the next step fails of."""
        class Flat(Around):
            def state_dict(self):
                return {"moments": [one["exp_avg"] for one in self.base_optimizer.state.values()]}

            def load_state_dict(self, state):
                pass

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        model = torch.distributed.fsdp.fully_shard(torch.nn.Linear(2, 2))
        with self.assertRaisesRegex(ValueError, "has optimizer, a .*Flat, in a form of its own with divided tensors"):
            self.restarted(Flat, lambda optimizer: {}, torch.optim.AdamW, model)
        self.assertIn("Flat, has divided tensors in a state_dict() of a form of its own", self.said_after_a_step(Flat, model)[0])
        self.assertEqual(self.said_after_a_step(Around, model), [])

    def said_after_a_step(self, kind, model):
        """Long before a restart."""
        optimizer = kind(model.parameters(), torch.optim.AdamW)
        step(model, optimizer)
        with tempfile.TemporaryDirectory() as directory, self.assertLogs("causeway", "WARNING") as said:
            TrainerState(directory, Solo(), [optimizer], {}).check_after_a_step()
            logging.getLogger("causeway").warning("the end")
        return said.output[:-1]


if __name__ == "__main__":
    unittest.main()
