"""The page, `shoal web`: questions answered over HTTP on this machine, by processes that can be ended."""
