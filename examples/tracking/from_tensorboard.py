"""Brings the curves of a run into MLflow or Weights & Biases, from the TensorBoard files that Causeway writes.

    pip install tensorboard mlflow        # or: tensorboard wandb
    python from_tensorboard.py RUN/tensorboard --to mlflow

Each region becomes a run of its own. MLflow takes MLFLOW_TRACKING_URI, Weights & Biases WANDB_MODE and its other variables.
Run it again to bring what came since: it makes new runs there.
"""
import argparse
import pathlib

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves(directory):
    """By tag, the (step, seconds since 1970, value) of a region."""
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0}).Reload()
    return {tag: [(one.step, one.wall_time, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def to_mlflow(name, found):
    import mlflow
    with mlflow.start_run(run_name=name):
        for tag, points in found.items():
            for step, wall_time, value in points:
                mlflow.log_metric(tag, value, step=step, timestamp=int(1000 * wall_time))


def to_wandb(name, found):
    import wandb
    by_step = {}
    for tag, points in found.items():
        for step, _, value in points:
            by_step.setdefault(step, {})[tag] = value
    with wandb.init(name=name) as run:
        for step, values in sorted(by_step.items()):
            run.log(values, step=step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path, help="RUN/tensorboard")
    parser.add_argument("--to", choices=("mlflow", "wandb"), required=True)
    arguments = parser.parse_args()
    regions = sorted(each for each in arguments.directory.iterdir() if each.is_dir()) if arguments.directory.is_dir() else []
    if not regions:
        parser.error(f"{arguments.directory}: no regions there; name the tensorboard directory of a run")
    for region in regions:
        (to_mlflow if arguments.to == "mlflow" else to_wandb)(region.name, curves(region))
        print(f"{region.name}: done")
