"""The replicas in log directories and tiers: listed by workers, or by a stream again and again; whose log each is."""
