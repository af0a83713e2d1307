"""A page to hand over: what a guarantee says, what it assumes, and the proof of it, for those who review it."""

from shoal.review.review_document import Review

__all__ = ["Review"]
