"""What the papers claim, as data: read, listed, and judged by the numbers of runs."""

from flatfed.published.claims.claim import Claim, Setting
from flatfed.published.claims.claim_file import claims, find_claim, settings
from flatfed.published.claims.judging import Verdict, judge

__all__ = ["Claim", "Setting", "Verdict", "claims", "find_claim", "judge", "settings"]
