"""`python -m kafkawire`: the `kafkawire` command where no script is installed."""

import sys

from kafkawire.cli import main

sys.exit(main())
