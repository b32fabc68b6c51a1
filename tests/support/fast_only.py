"""What only the fast twins do: with `REGARD_FAST=0` such tests are skipped."""

import pytest

from regard.config.twins import SWITCH, enabled

needs_fast = pytest.mark.skipif(not enabled(), reason=f"{SWITCH}=0")
