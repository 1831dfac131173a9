"""A driver's process as its pod starts it, but on this machine and alone: no cluster, no controller.

    with ApiServer(folder) as api:
        ran = run_driver(request, api, folder / "first")  # spark=True: by Spark, however small the work
        ran.result, ran.cpu_seconds, ran.peak_rss, ran.programs, ran.progress

The process is a new one of the product's own command line, so it has all that a pod has to pay for. Its metastore is
the request's, a real one. The API server is a stand-in that accepts journals and progress.
"""
