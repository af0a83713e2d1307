"""Histograms of many people: their files, from the data to the estimate."""
