"""The names of `kafkawire.runtime` that only codecs use, and no others; they are imported with the first message.

`__all__` of the modules below names them.
"""

# ruff: noqa: F401, F403 names for generated code
from kafkawire.wire import classic, flexible
from kafkawire.wire.fields import *
from kafkawire.wire.generated import *
from kafkawire.wire.message import *
from kafkawire.wire.read import *
from kafkawire.wire.read import run as _run
from kafkawire.wire.spec import *
from kafkawire.wire.tags import *
from kafkawire.wire.values import *
from kafkawire.wire.write import *

# The runs that most messages have.
unpack_b, pack_b = _run("b")
unpack_h, pack_h = _run("h")
unpack_i, pack_i = _run("i")
unpack_q, pack_q = _run("q")
unpack_u, pack_u = _run("16s")
unpack_ih, pack_ih = _run("ih")
unpack_ii, pack_ii = _run("ii")
unpack_iq, pack_iq = _run("iq")
