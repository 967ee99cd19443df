"""Tensors that the ranks of a region divide (DTensor: FSDP2, tensor parallelism)."""
try:
    from torch.distributed.tensor import DTensor, distribute_tensor
except ImportError:  # PyTorch can be built without torch.distributed
    DTensor, distribute_tensor = (), None


def whole(tensor):
    """All of it, on every rank. A collective, if the tensor is divided."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
