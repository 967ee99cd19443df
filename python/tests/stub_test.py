"""The stub says what the module has: names, and parameters with their defaults."""
import ast
import pathlib
import unittest

import causeway._causeway as module

STUB = pathlib.Path(module.__file__).with_name("_causeway.pyi")


class Stub(unittest.TestCase):
    def setUp(self):
        self.tree = ast.parse(STUB.read_text())
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def public(self, owner):
        return {name for name in vars(owner) if not name.startswith("_")}

    def test_every_name_of_the_module_is_in_it_and_no_other(self):
        self.assertEqual(set(self.classes), {name for name in self.public(module)})
        for name in ("Steps", "Worker"):
            told = {node.name for node in self.classes[name].body if isinstance(node, ast.FunctionDef)}
            self.assertEqual(told - {"__init__"}, self.public(getattr(module, name)))

    def test_parameters_and_defaults_are_those_of_the_module(self):
        for function in self.classes["Worker"].body:
            if isinstance(function, ast.FunctionDef):
                signature = getattr(module.Worker, function.name).__doc__.split("\n")[0]
                real = ast.parse(f"def {signature}: ...").body[0]
                self.assertEqual(self.told(function), self.told(real), signature)

    @staticmethod
    def told(function):
        arguments = function.args
        defaults = [ast.unparse(one) if one else None for one in arguments.defaults + arguments.kw_defaults]
        return [one.arg for one in arguments.args + arguments.kwonlyargs], defaults


if __name__ == "__main__":
    unittest.main()
