"""``python -m variorum`` is the ``variorum`` command."""

import sys

from variorum.cli import main

sys.exit(main())
