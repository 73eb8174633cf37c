"""`python -m campaign`: see `command`."""

import sys

from campaign.command import main

sys.exit(main())
