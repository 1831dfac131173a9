"""The root of the project's exceptions. Each of them stays in the module that raises it; here is the whole tree.

Beside an exception is the reason that a TableCompaction's condition shows when it ends a driver. Without a reason of
its own it has that of the exception above it. Before an attempt, a MetastoreError is MetastoreUnavailable, and a
StorageError is StorageUnavailable. A CompactionCleanup's condition shows the reasons MetastoreUnavailable, NotAllowed
and UnknownWarehouse, and the names of other exceptions.

    OperatorError
        AskError
            StandbyError
        BusyError
        ContentError
        DamagedReceiptError (ValueError)
        DeletesError
        FilterError (ValueError)
        HudiError                       UnsupportedTable
            HudiFailedError             DriverFailed
            HudiLockError               WaitingForLock
            MergedWronglyError
            NoLockProviderError         NoLockProvider
            NotHudiError                TableNotFound
            NotMergeOnReadError         NotMergeOnRead
            RefusedOptionError          RefusedOption
            UnsupportedVersionError
            WaitingForInstantError      WaitingForInstant
        Incompatible (ValueError)       UnreadableFile
        JobError                        (its own)
            HalfPublished               (its own)
            JournalRefused              DriverFailed
            OvertakenError              WaitingForInstant
            RepeatedRow                 UnreadableFile, or OverlappingCompaction
            RowTypesDiffer              RowTypesDiffer
            TableChanged                TableChanged
            Unstopped                   (its own)
        KubeError
            ConflictError
            CutError
            ExpiredError
            ForbiddenError
            GoneError
            NotReadyError
            ResourceExistsError
        LogFormatError
        MetastoreError                  DriverFailed
            LockLost                    LockLost
            MetastoreUnavailable        MetastoreUnavailable
                HungUp
            NotAllowedError             NotAllowed
            TableNotFound               TableNotFound
            TransactionLost             TransactionLost
            UnknownWarehouseError       UnknownWarehouse
        NoAnswer
        NoEffectError
        NoExecutorError
        NoPolicyError
        NotEnoughHistory (ValueError)   UnsupportedTable
            OpenWriteBelow              WaitingForOpenWrite
        NotRunInPodError
        OrcError                        UnreadableFile
            RepeatedRowError
            RowTypeError                RowTypesDiffer
        PartitionSpecError (ValueError) PartitionNotFound
        QuestionError (ValueError)
        ReadersBusyError
        ReceiptNotWrittenError
        Refused                         (its own)
        StillThereError
        StorageError                    UnreadableFile, or StorageUnavailable
            AlreadyExistsError
            NotFoundError
            S3Error
        TableGoneError
        ThresholdError (ValueError)
        UndecidedError
        UnknownTimeZoneError (ValueError)
        UnsupportedLayout (ValueError)  UnsupportedTable
        WentBackError
"""


class OperatorError(Exception):
    """Any error that this project raises on purpose, except a plain ValueError about one argument."""
