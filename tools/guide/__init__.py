"""The guide, a static site that MkDocs builds of docs/ (`make docs`): `outside` adds pages that live elsewhere."""
