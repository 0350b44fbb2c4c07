"""Makes `examples/`: a capture and log directories of real brokers, and the brokers' own word about them."""
