"""Slow, independent reference computations that the library's answers are tested against."""
