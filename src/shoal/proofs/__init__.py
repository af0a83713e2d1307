"""Proofs in ball arithmetic: what is claimed, and sums that enclose it; nothing here is shared with floating point.

Every claim is one class in one file. Reading a certificate and proving it again needs this folder and
python-flint, not even numpy, and none of the evaluators that made the number (docs/theory/certificates.md).
"""

from shoal.folder_modules import gather

gather(__name__, suffix="_claim")
