"""Proofs in ball arithmetic: what is claimed, and sums that enclose it; nothing here is shared with floating point.

Every claim is one class. Reading a certificate and proving it again needs this folder and python-flint, and neither
numpy nor the code that computed the number (docs/theory/certificates.md).
"""

from shoal.lazy_names import gather

gather(__name__, suffix="_claim")
