"""HTML reports of an audit, of the offsets of a partition, or of the witness. A report is one file that loads nothing,
and is readable without its script.

```python
html = report.render(audit)              # rows.Audit -> text of an HTML document
html = report.render_offsets(offsets.explain(replica))
html = report.render_witness(witness.rows())
```
"""

from kafkawire.report.page import render, render_offsets, render_witness

__all__ = ["render", "render_offsets", "render_witness"]
