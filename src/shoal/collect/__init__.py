"""From people to an estimate: sealed reports, a shuffler that cannot read them, an analyst who learns no order."""
