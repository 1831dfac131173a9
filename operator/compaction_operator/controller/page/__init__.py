"""The web page: what the controller knows, as HTML for people. Off by default; it changes nothing."""

from compaction_operator.controller.page.seen import Looked, Seen, Unseen
from compaction_operator.controller.page.site import Site

__all__ = ["Looked", "Seen", "Site", "Unseen"]
