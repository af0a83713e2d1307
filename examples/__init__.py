"""What `make demo` runs."""
