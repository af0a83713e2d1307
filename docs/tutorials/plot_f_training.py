"""
.. _tutorial-training:

Private training with PyTorch, and moving from Opacus
=====================================================

Train a PyTorch model with differential privacy, and know what was guaranteed. Then the same for a training loop that uses Opacus. It needs the extras ``torch`` and ``opacus``.
"""

# %%
# Data
# ----
# Two classes that a line nearly separates; 6,016 examples in 94 batches of 64.

import warnings

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from shoal import sgd
from shoal.digits import rounded_up
from shoal.sgd.torch import make_private

torch.manual_seed(1)
features = torch.randn(6_016, 10)
labels = (features[:, 0] + features[:, 1] + 0.3 * torch.randn(6_016) > 0).long()
dataset = TensorDataset(features, labels)


def network():
    """Return a small model."""
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))


# %%
# One call
# --------
# ``make_private`` takes model, optimizer and data in the order of Opacus, and a ``Run``, for which ``calibrate`` chooses the noise. It draws the batches, clips the gradient of every example and adds noise from a cipher.

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
run = sgd.Run(examples=len(dataset), batch_size=64, sampling="allocation")
run = sgd.calibrate(run, epsilon=1, delta=1e-6)
training = make_private(model, optimizer, dataset, run, loss=nn.CrossEntropyLoss())
training.fit()
accuracy = (model(features).argmax(dim=1) == labels).float().mean()
print(training.guarantee())
print(f"noise {training.guarantee().run.noise_multiplier:.3f}, accuracy {accuracy:.3f}")

# %%
# How the batches are drawn decides ε
# -----------------------------------
# In this run every example joined one random step of each epoch: *allocation*. A loader with ``shuffle=True`` cuts a permutation into batches, which sounds like the same, and is not:

run = sgd.Run(examples=6_016, batch_size=64, noise_multiplier=0.8, adjacency="zero-out")
for guarantee in sgd.compare_samplers(run, delta=1e-6):
    print(f"{guarantee.run.sampling:<12} ε = {rounded_up(guarantee.epsilon, 4)}")
comparison = sgd.poisson_comparison(run, delta=1e-6)
comparison

# %%
# The last line is the trap. Libraries that account for every training as if it were drawn by coins print the small number for a permutation, for which no ε below the large one holds.
#
# You have a loop with Opacus
# ---------------------------
# Keep it, and add one line: ``account`` reads from the engine and the loader how the batches were really drawn.

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Opacus and torch, about their own defaults
    from opacus import PrivacyEngine

    from shoal.sgd.opacus import account

    engine = PrivacyEngine(accountant="shoal")
    module = network()
    private, noisy, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.5),
        data_loader=DataLoader(dataset, batch_size=64, shuffle=True),
        noise_multiplier=0.8,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    honest = account(engine, loader)  # after make_private, before the first step
    for batch, target in loader:
        noisy.zero_grad()
        nn.functional.cross_entropy(private(batch), target).backward()
        noisy.step()
    honest_epsilon = honest.guarantee(delta=1e-6).epsilon
    printed = honest.opacus_epsilon(delta=1e-6)
print(f"Opacus would print {printed:.2f}; what holds is {rounded_up(honest_epsilon, 4)}")

# %%
# And to move: what is called what
# --------------------------------
#
# ==================================================  ===========================================
# in Opacus                                           here
# ==================================================  ===========================================
# ``max_grad_norm``                                   ``clip_norm``
# ``target_epsilon``, ``target_delta``                ``epsilon``, ``delta``
# ``poisson_sampling=True``                           ``sampling="poisson"``
# ``loss.backward()``, ``optimizer.step()``           ``training.step(batch)``, or ``training.fit()``
# ``BatchMemoryManager(max_physical_batch_size=64)``  ``virtual_batch_size=64``
# ``engine.get_epsilon(delta)``                       ``training.epsilon``, ``training.guarantee()``
# ==================================================  ===========================================
#
# The picture
# -----------
# ε of one epoch against the noise, for three ways of drawing batches:

noises = [0.6, 0.8, 1.1, 1.5, 2.0]
figure, axes = plt.subplots(figsize=(7, 4.2))
for name in ("permutation", "poisson", "allocation"):
    runs = [
        sgd.Run(
            examples=6_016,
            batch_size=64,
            noise_multiplier=s,
            adjacency="zero-out",
            sampling=name,
        )
        for s in noises
    ]
    axes.plot(
        noises, [sgd.guarantee(each, delta=1e-6).epsilon for each in runs], "o-", label=name
    )
axes.set(
    xlabel="noise multiplier σ",
    ylabel="ε at δ = 1e-6",
    title="One epoch of 94 steps",
    yscale="log",
)
axes.grid(alpha=0.3)
axes.legend()
figure.tight_layout()
