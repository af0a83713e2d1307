"""What a training with Opacus guarantees by the loader that it really drew its batches from.

`account(engine, loader)` reads the sampler, the number of examples, the noise and the steps from Opacus's own objects,
and refuses what it does not know. `noise_multiplier_for` says how much noise a true ε needs. Importing this registers
an accountant: `PrivacyEngine(accountant="shoal")`.
"""

from shoal.errors import MissingExtraError

try:
    from shoal.sgd.opacus.engine_account import EngineAccount, EngineGuarantee, account, noise_multiplier_for
    from shoal.sgd.opacus.step_accountant import StepAccountant
except ModuleNotFoundError as error:
    if error.name not in ("opacus", "torch"):
        raise
    raise MissingExtraError('this needs Opacus: pip install "shoal-dp[opacus]"') from None

__all__ = ["EngineAccount", "EngineGuarantee", "StepAccountant", "account", "noise_multiplier_for"]
