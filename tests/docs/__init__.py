"""The pages of the documentation: what they say of the code, and the programs among them."""
