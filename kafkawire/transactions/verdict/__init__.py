"""The verdict on an open transaction (hanging, not_hanging, unknown), its premises; when an abort is permitted."""
