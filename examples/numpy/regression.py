"""A NumPy program that trains as one region of a run of Causeway: logistic regression by gradient descent.

    causeway init --trainer own
    causeway simulate causeway.toml --worker 'python examples/numpy/regression.py'
"""
import hashlib
import os

import numpy as np

import causeway

FEATURES, BATCH = 16, 64


def batch(number):
    """Inputs, and whether a plane that nobody was told of has them on its positive side."""
    chance = np.random.default_rng(number)
    inputs = chance.standard_normal((BATCH, FEATURES), dtype=np.float32)
    return inputs, (inputs @ np.linspace(-1, 1, FEATURES, dtype=np.float32) > 0.3).astype(np.float32)


def main():
    parameters = {"weights": np.zeros(FEATURES, np.float32), "offset": np.zeros(1, np.float32)}
    worker = causeway.Worker(parameters, region=os.environ["CAUSEWAY_REGION"], directory=os.environ["CAUSEWAY_DIRECTORY"],
                             samples_per_step=BATCH)
    loss = float("nan")
    while (steps := worker.next()) is not None:  # the arrays hold what to start from
        taken = 0
        while taken < steps.count and not worker.called_back():
            inputs, wanted = batch((steps.first_sample // BATCH + taken) * steps.parts + steps.part)
            likely = 1 / (1 + np.exp(-(inputs @ parameters["weights"] + parameters["offset"])))
            loss = float(-np.mean(wanted * np.log(likely + 1e-9) + (1 - wanted) * np.log(1 - likely + 1e-9)))
            parameters["weights"] -= 0.5 * inputs.T @ (likely - wanted) / BATCH
            parameters["offset"] -= 0.5 * np.mean(likely - wanted)
            taken += 1
        worker.done(taken, loss)
    values = b"".join(array.tobytes() for array in parameters.values())
    print(f"ends with loss {loss:.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
