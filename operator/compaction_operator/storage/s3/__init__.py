"""Storage on S3 and what speaks its protocol, by boto3: one chain of credentials and one policy of retries.

Nothing can be renamed, and a directory is no more than the keys that begin with its name and "/". So outputs are
published by uploads that are completed one by one (`S3Uploads`).
"""

from compaction_operator.storage.s3.client import Pace
from compaction_operator.storage.s3.objects import S3Error
from compaction_operator.storage.s3.storage import S3Storage, connect

__all__ = ["Pace", "S3Error", "S3Storage", "connect"]
