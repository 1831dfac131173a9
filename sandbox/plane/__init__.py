"""The operator on a real control plane without a node, all of it processes of this machine that can be killed.

A `Plane` is etcd, kube-apiserver and kube-controller-manager (the sandbox's own programs), a real Hive metastore, the
operator's chart (resources, roles, tokens of its service accounts; no Deployment), the real controller
(`compaction-operator run`), and a stand-in for the kubelet that runs the drivers of its Jobs (`compaction-operator job`
with the environment of the manifest) and reports their pods' status. It starts in about 15 seconds, lies in one folder
and ends with the process that made it. Tables lie on this machine's disk or (`storage="hdfs"`, `"s3"`) in a store of
the plane's own. Controller and drivers are forked off a process that has done their imports: a compaction takes 1.5
seconds without Spark, about 10 with it (`spark=True`, the default: no executors).

    with Plane(folder, hive="3.1.3", spark=False) as plane:
        admin = plane.admin()  # a MetastoreAdmin; files go below plane.metastore.warehouse
        name = plane.compact("db.t", "Minor", cleanup={"gracePeriod": "1s"}, retry={"backoff": "1s"})
        plane.wait_ended(name).status.totals  # raises EndedOtherwiseError when it failed for good
        plane.wait_cleaned(name)  # its cleanups, once they have succeeded
        plane.compaction(name), plane.events(name)  # as last seen, by watches; plane.cleanups(name) asks
        plane.wait(lambda: plane.cleanups(name), what="a journal", timeout=10)  # asked again after each event
        plane.delete(name)

        plane.controller.kill(); plane.controller.start()  # also pause, resume, lose, wait, running, log
        (driver,) = plane.drivers.current()  # of pods whose processes have not ended
        driver.kill(); driver.pause(); driver.resume(); plane.drivers.lose(driver)  # lose: the pod's node vanishes
        plane.drivers.end(driver, why="OOMKilled")  # or reason="Evicted": what its pod then says
        plane.metastore.kill(); plane.restart_metastore()  # also pause, resume
    plane.store.kill(); plane.store.start()  # also pause, resume; None for this machine's disk
        with plane.api_server_away(): ...  # or plane.without_room(): a quota without room for pods
        plane.back_up_etcd(); plane.restore_etcd()  # all objects and resource versions as they were then
        plane.control.kubectl("get", "tcomp")  # the control plane alone; control.stored(GROUP): what etcd has

NB: start a plane in a thread that lives as long as it: its programs end with the thread that started them.
`entry` takes the place of `pod.run` for controller and drivers: a function of a module that does something first.
`environment` is called before each of their starts, with its arguments, for more environment variables.
"""

from sandbox.plane.plane import EndedOtherwiseError, Plane

__all__ = ["EndedOtherwiseError", "Plane"]
