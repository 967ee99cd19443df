"""A JAX program that trains as one region of a run of Causeway.

JAX's arrays cannot be written to, so the worker keeps NumPy arrays, and done() is given JAX's own.

    causeway init --trainer own
    causeway simulate causeway.toml --worker 'python examples/jax/train.py'
"""
import hashlib
import os

import jax
import jax.numpy as jnp
import numpy as np

import causeway

WIDTH, BATCH = 32, 64


def initial():
    chance = np.random.default_rng(1)  # all regions begin with the same model
    return {"in": chance.standard_normal((2, WIDTH), dtype=np.float32), "shift": np.zeros(WIDTH, np.float32),
            "out": chance.standard_normal((WIDTH, 1), dtype=np.float32) / WIDTH**0.5}


def loss_of(parameters, inputs):
    guess = jnp.tanh(inputs @ parameters["in"] + parameters["shift"]) @ parameters["out"]
    return jnp.mean((guess[:, 0] - inputs[:, 0] * inputs[:, 1]) ** 2)


@jax.jit
def descend(parameters, inputs):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs)
    return {name: value - 0.05 * gradients[name] for name, value in parameters.items()}, loss


def main():
    host = initial()
    worker = causeway.Worker(host, region=os.environ["CAUSEWAY_REGION"], directory=os.environ["CAUSEWAY_DIRECTORY"],
                             samples_per_step=BATCH)
    loss = float("nan")
    while (steps := worker.next()) is not None:
        parameters = {name: jnp.array(array) for name, array in host.items()}
        taken = 0
        while taken < steps.count and not worker.called_back():
            chance = np.random.default_rng((steps.first_sample // BATCH + taken) * steps.parts + steps.part)
            parameters, loss = descend(parameters, chance.uniform(-1, 1, (BATCH, 2)).astype(np.float32))
            taken += 1
        worker.done(taken, float(loss), parameters)
    values = b"".join(array.tobytes() for array in host.values())
    print(f"ends with loss {float(loss):.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
