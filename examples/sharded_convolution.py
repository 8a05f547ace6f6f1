"""A convolution of an image in strips on several processes, which exchange only the rows at their edges.

Run with: torchrun --nproc-per-node 2 examples/sharded_convolution.py
"""

import torch
import torch.distributed as dist
from opwright_kernels.torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
image, weights = torch.randn(1, 3, 64, 48), torch.randn(8, 3, 3, 3)
attributes = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
attributes |= {"data_format": "NCX", "weights_format": "OIX"}

strips = distribute_tensor(image, mesh, [Shard(2)])
made = distributed.call("convolution", strips, distribute_tensor(weights, mesh, [Replicate()]), **attributes)
whole = made.full_tensor()

assert torch.allclose(whole, torch.ops.opwright.convolution(image, weights, **attributes), rtol=1e-5, atol=1e-5)
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} processes, {tuple(made.to_local().shape)} of {tuple(whole.shape)} here")
dist.destroy_process_group()
