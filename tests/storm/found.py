"""What seeds have found and was mended: plans that failed once and must not again.

A seed means another run whenever the planner changes, so what it found is kept as a scene: a small fixed world, and the
few happenings that `shrink` left.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.storm import scenes_gangs, scenes_groups
from tests.storm.casting import DEVICES, EVICTOR, GANGS, POLICIES
from tests.storm.casting_groups import ZONES
from tests.storm.happenings import at
from tests.storm.plan import Plan
from tests.storm.process import Clock
from tests.storm.towns import scene


@dataclass(frozen=True)
class Found:
    """What a seed found, and what mended it."""

    name: str
    cause: str
    scene: Plan


FOUND: tuple[Found, ...] = (
    Found(
        "restored from a backup",
        "a watch went on from a version in the future, and the server said nothing until it was past it",
        scene(
            "restored",
            at(100.0, "want", namespace="blue", name="w1", cpu=100, replicas=5),
            at(131.0, "want", namespace="green", name="w2", cpu=100, replicas=5),
            at(148.0, "restore", back=60.0, seconds=0.5),
        ),
    ),
    Found(
        "a label is what it was in the backup",
        "the judge did not look at nodes again after a restore, so evictions that were due looked wrong (seed 314)",
        scene(
            "restored label",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True, budget=4),
            at(60.0, "relabel", node="n1", disk="hdd", seconds=20.0),
            at(85.0, "restore", back=15.0, seconds=2.0),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a binding is undone by a backup",
        "a placed pod that was shown without its node, in a later version, stayed where it was in the cache",
        scene(
            "undone by a backup",
            at(90.0, "want", namespace="blue", name="w1", cpu=1000, replicas=3, gated=True),
            at(100.0, "ungate"),
            at(103.0, "cut-off", who="berth-b", seconds=70.0),
            at(105.0, "restore", back=8.0, seconds=1.0),
            at(110.0, "want", namespace="green", name="w2", cpu=1000, priority="high", replicas=7),
            at(140.0, "ungate"),
        ),
    ),
    Found(
        "events lost",
        "nothing compared the cache with the cluster, so a lost event was never made up for",
        scene(
            "lost",
            at(125.8, "watch-lines", plural="pods", how="lost", chance=1.0, seconds=11.0),
            at(133.7, "want", namespace="blue", name="w1", cpu=250, replicas=7),
        ),
    ),
    Found(
        "a Binding is stored, and answered 500",
        "500, 502 and 504 counted as a refusal, though the server may have acted",
        scene(
            "answered 500",
            at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=20.0, code=500, acted=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "a page in answer to events",
        "200 with a proxy's page counted as an event that is there, and nobody was told that the pod is bound",
        scene(
            "page for events",
            at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="create events", chance=0.5, seconds=20.0, code=200, page=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "a page in answer to a Binding",
        "200 with a proxy's page counted as yes, and the pod was assumed for ever",
        scene(
            "page for a Binding",
            at(1.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="create pods/binding", chance=0.5, seconds=20.0, code=200, page=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "a Binding lands after the pod was asked for",
        "one look at a pod that was not bound counted as a refusal, though the Binding was still on its way",
        scene(
            "orphan",
            *(at(when, "want", namespace="blue", name=f"w{when:.0f}", cpu=500, replicas=9) for when in (1.0, 2.0)),
            at(50.0, "requests", what="create pods/binding", chance=0.5, seconds=60.0, orphan=4.0),
            *(at(when, "delete-pods", count=9) for when in (55.0, 65.0, 75.0, 85.0, 95.0)),
        ),
    ),
    Found(
        "a maintenance page that asks for an hour",
        "Retry-After was obeyed up to 3,600 s, and the lists of a restarted replica waited for it",
        scene(
            "an hour",
            at(11.6, "want", namespace="blue", name="w2", cpu=500, gated=True, replicas=10),
            at(71.7, "requests", what="", chance=0.5, seconds=44.1, code=503, retry_after=3600),
            at(78.4, "ungate"),
        ),
    ),
    Found(
        "a page in place of the Lease",
        "200 with HTML, from a proxy, raised DecodeError out of the election and ended the process",
        scene("page", at(24.1, "requests", what="", chance=1.0, seconds=84.2, code=200, page=True, acted=True)),
    ),
    Found(
        "JSON in place of an answer",
        "200 with JSON that is none of the API's counted as yes to a write, and raised where an object or a list of"
        " some kinds was read",
        scene(
            "strange answers",
            at(20.0, "want", namespace="blue", name="w1", cpu=100, replicas=5, gated=True),
            at(50.0, "requests", what="", chance=0.5, seconds=60.0, code=200, strange=True),
            at(55.0, "ungate"),
        ),
    ),
    Found(
        "JSON in place of an eviction's answer",
        "200 with JSON that is none of the API's counted as yes, so the pod counted as leaving for ten minutes",
        scene(
            "strange answers to an eviction",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
            at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
            at(200.0, "relabel", node="n1", disk="hdd", seconds=0.0),
            at(200.0, "requests", what="create pods/eviction", chance=1.0, seconds=60.0, code=200, strange=True),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "JSON in place of earlier evictions",
        "200 with JSON that is no list raised out of the term of a new leader, and ended the evictor, or counted as"
        " no evictions at all",
        scene(
            "strange answers for earlier evictions",
            at(100.0, "requests", what="list events", chance=1.0, seconds=40.0, code=200, strange=True),
            *(at(100.0, "kill", who=f"evictor-{machine}", seconds=1.0) for machine in "ab"),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a policy's event is lost",
        "the admission server compared the policies that it knew with nothing, and let pods past a policy for ever",
        scene(
            "policy lost",
            at(50.0, "watch-lines", plural="metadatapolicies", how="lost", chance=1.0, seconds=20.0),
            at(60.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
            at(75.0, "policy", namespace="green", name="m1", rule="stamp", app="w", seconds=0.0),
            at(180.0, "want", namespace="blue", name="w", cpu=100, replicas=6),
            cast=(POLICIES,),
        ),
    ),
    Found(
        "a Binding that the API server has asked to wait",
        "after a 429 the client sent it again, though its node was cordoned meanwhile",
        scene(
            "asked to wait",
            at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=3.0, code=429, retry_after=30),
            at(51.0, "want", namespace="blue", name="w", cpu=100, replicas=1),
            *(at(56.0, "cordon", node=node, seconds=300.0) for node in ("n0", "n1", "n2", "n3")),
        ),
    ),
    Found(
        "policies after a restore from a backup",
        "kopf's watch went on from a version in the future, and heard of nothing that happened until then",
        scene(
            "policies restored",
            at(310.0, "policy", namespace="green", name="m1", rule="stamp", app="w", seconds=0.0),
            at(315.0, "restore", back=60.0, seconds=0.5),
            at(335.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
            cast=(POLICIES,),
        ),
    ),
    Found(
        "a field of another type in the Lease",
        "what is inside a Lease was not looked at before it was read, and ended the process",
        scene(
            "mistyped Lease",
            at(20.0, "requests", what="get leases", chance=1.0, seconds=60.0, right=True, mistyped=True),
            at(30.0, "requests", what="update leases", chance=0.5, seconds=60.0, right=True, mistyped=True),
            at(100.0, "want", namespace="blue", name="w", cpu=100, replicas=5),
        ),
    ),
    Found(
        "a page in place of the list of policies",
        "200 with a proxy's page raised DecodeError out of the operator's look at everything, and ended the operator",
        scene(
            "page for policies",
            at(3.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
            at(20.0, "requests", what="list metadatapolicies", chance=1.0, seconds=150.0, code=200, page=True),
            at(100.0, "compact"),
            at(101.0, "reset", who="operator-a", part=1.0),
            at(101.0, "reset", who="operator-b", part=1.0),
            at(120.0, "lease-gone"),
            at(175.0, "policy", namespace="blue", name="m0", rule="warn", app="w", seconds=0.0),
            cast=(POLICIES,),
        ),
    ),
    Found(
        "a list that was lost, of a process that began while it was cut off",
        "connections that came not about gave the list five minutes, so nobody asked again for so long (seed 606274)",
        scene(
            "begun while cut off",
            at(190.0, "power-off", who="berth-a", seconds=18.0),
            at(200.0, "cut-off", who="berth-a", seconds=80.0),
            at(278.0, "requests", what="list", chance=1.0, seconds=12.0, code=-1),
        ),
    ),
    Found(
        "counted by the one that lives",
        "no fault: two leaders sent the same Binding, and nobody can know whose was stored; the judge knows that now",
        scene(
            "counted",
            at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=60.0, right=True, after=45.0),
            at(55.0, "want", namespace="blue", name="w", cpu=500, replicas=8),
            at(60.0, "kill", who="berth-a", seconds=1.0),
            at(60.0, "kill", who="berth-b", seconds=1.0),
        ),
    ),
    Found(
        "a former leader has bound the pod",
        "both replicas choose alike, so the 409 was taken for the answer to a Binding of our own, and announced again",
        scene(
            "twice0",
            at(73.9, "want", namespace="green", name="w1", cpu=1000, apart=True, replicas=5),
            at(90.8, "lease-gone"),
            at(91.6, "delete-pods", count=7),
        ),
    ),
    Found(
        "a claim that another leader has reserved",
        "of two leaders for a moment, the one whose write of a claim was refused took the pod out of it, which the"
        " other one was binding (seed 100130)",
        scene(
            "two leaders 2",
            at(73.9, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=8),
            at(90.8, "lease-gone"),
            at(91.6, "delete-pods", count=8),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a claim that others still use",
        "the API server put the patch that takes one user out of a claim in the place of all users (seed 130)",
        scene(
            "taken out",
            at(20.0, "requests", what="patch resourceclaims/status", chance=0.5, seconds=20.0, code=0, acted=True),
            at(21.0, "want", namespace="blue", name="d0", cpu=50, claims="shared", replicas=4),
            at(90.0, "want", namespace="blue", name="d0", cpu=50, claims="shared", replicas=1),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a successor of the same second",
        "the judge took who came back within the second of an eviction for a sibling, so the round which its eviction"
        " began looked like one of successors (seed 158)",
        scene(
            "same second 8",
            at(2.0, "relabel", node="n2", disk="hdd", seconds=0.0),
            at(5.0, "want", namespace="blue", name="p1", cpu=100, replicas=4, promise=True, budget=2),
            at(60.0, "relabel", node="n2", disk="ssd", seconds=0.0),
            at(61.0, "relabel", node="n1", disk="hdd", seconds=0.0),
            at(180.0, "relabel", node="n1", disk="ssd", seconds=0.0),
            at(181.0, "relabel", node="n2", disk="hdd", seconds=0.0),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "pods that have not started are evicted",
        "the Eviction API lets pods that are Pending go whatever their budget says, and the judge did not know that"
        " (seed 30271)",
        scene(
            "not started",
            at(5.0, "slow-kubelets", takes=60.0, seconds=10.0),
            at(6.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True, budget=4),
            at(20.0, "relabel", node="n1", disk="hdd", seconds=120.0),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a pod is taken out of its claim after it was bound",
        "when its answer was lost, the write that takes a pod out of its claims was sent again, though the pod was"
        " tried again and bound meanwhile: it ran with a device that was reserved for nobody",
        scenes_gangs.TAKEN_OUT,
    ),
    Found(
        "a write that takes a pod out of its claim comes late",
        "the same, when the API server acts 45 s later",
        scenes_gangs.TAKEN_OUT_LATE,
    ),
    Found(
        "a leader that has died takes a pod out of its claim",
        "the next leader found the claim reserved, wrote nothing, and bound the pod; the write of the former one was"
        " carried out then, as the claim had not changed",
        scenes_groups.LATE_FROM_THE_DEAD,
    ),
    Found(
        "a leader that has died allocates a claim",
        "the next leader had given the device to another claim, and the claim had not changed; the storm's claim"
        " controller changed it, as the real one does not",
        scenes_groups.ALLOCATED_BY_THE_DEAD,
    ),
    Found(
        "a leader that has died allocates a claim whose pod is gone",
        "nobody tried that pod any more, so nothing kept the allocation from being carried out (seed 502205)",
        scenes_groups.BEGUN_BY_THE_DEAD,
    ),
    Found(
        "Bindings of a leader that has died are carried out after the next one has found no node for their pods",
        "it freed the claims of pods that seemed to wait, so they ran without devices (seed 700018)",
        scenes_groups.BOUND_BY_THE_DEAD,
    ),
    Found(
        "Bindings of a leader that has died are carried out after those of the next one were refused",
        "the pods were taken out of claims by which they were bound then (beside seed 700018)",
        scenes_groups.REFUSED_BESIDE_THE_DEAD,
    ),
    Found(
        "the allocation of a claim is refused, and nobody has changed the claim",
        "its devices were held until the watch showed another version, which never came (seed 13); the storm's claim"
        " controller made one, as the real one does not",
        scene(
            "refused for nothing",
            at(9.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=5.0, code=409),
            at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=8),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "both writes of a claim are refused, and nobody has changed it",
        "its allocation was refused, and then the write by which Berth learns that nothing was given; no event came of"
        " either, so its pod waited for the next flush, five minutes later (seed 337)",
        scene(
            "refused twice",
            at(249.0, "requests", what="patch resourceclaims/status", chance=1.0, seconds=4.0, code=409),
            at(251.5, "requests", what="patch resourceclaims", chance=1.0, seconds=4.0, code=409),
            at(250.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=8),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "claims after a restore from a backup",
        "pods that were unbound again were bound by what was known of their claims, which were listed a moment later"
        " and had lost their devices (seed 238)",
        scene(
            "claims of a backup",
            *(at(29.0, "kill", who=f"berth-{machine}", seconds=12.0) for machine in "ab"),
            at(30.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
            at(70.0, "restore", back=20.0, seconds=0.75),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a Binding that was sent before a restore from a backup",
        "it had no answer and was sent again, though what was written of its claims before was lost with the history",
        scene(
            "sent before a backup",
            *(at(29.0, "kill", who=f"berth-{machine}", seconds=12.0) for machine in "ab"),
            at(30.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
            at(50.0, "requests", what="create pods/binding", chance=1.0, seconds=12.0, code=0),
            at(62.0, "restore", back=12.0, seconds=0.75),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a watch that was being opened when another kind found the backup",
        "who asks for a list finds no stream to end then, so the watch went on for minutes, and as long nothing was"
        " decided (seed 1625)",
        scene(
            "opened late after a backup",
            at(95.0, "want", namespace="blue", name="w1", cpu=100, replicas=5),
            at(109.0, "requests", what="watch persistentvolumes", chance=1.0, seconds=20.0, right=True, after=3.0),
            at(109.0, "requests", what="list pods", chance=1.0, seconds=20.0, right=True, after=5.0),
            at(110.0, "restore", back=20.0, seconds=0.75),
            at(130.0, "want", namespace="green", name="w2", cpu=100, replicas=5),
        ),
    ),
    Found(
        "an eviction that begins its owner's next round, and is late",
        "its intent was answered late, and meanwhile an older pod of the owner was evicted, so that a successor went"
        " 2.5 s after that instead of 60 s (beside seed 30321)",
        scene(
            "overtaken",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=6, promise=True),
            at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
            at(100.0, "relabel", node="n1", disk="hdd", seconds=60.0),
            at(200.0, "relabel", node="n0", disk="hdd", seconds=60.0),
            at(200.5, "relabel", node="n2", disk="hdd", seconds=60.0),
            at(214.0, "requests", what="create events", chance=0.3, seconds=1.25, right=True, after=3.0),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a page in answer to an eviction",
        "200 with a proxy's page counted as yes, so the pod counted as leaving for ten minutes, and its owner's next"
        " pods were spared (seed 50397)",
        scene(
            "page for an eviction",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
            at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
            at(200.0, "relabel", node="n1", disk="hdd", seconds=0.0),
            at(200.0, "requests", what="create pods/eviction", chance=1.0, seconds=60.0, code=200, page=True),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "evictions that a backup undoes",
        "who came back with the backup counted as leaving for ten minutes, as the API had said yes before (seed"
        " 105171)",
        scene(
            "evicted before a backup",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
            at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
            at(300.0, "relabel", node="n1", disk="hdd", seconds=0.0),
            at(325.0, "restore", back=15.0, seconds=0.5),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "evictions that a backup undoes before a watch shows them",
        "the same, and nothing that the watch brought told of the restore (beside seed 105171)",
        scene(
            "evicted unseen before a backup",
            at(5.0, "want", namespace="blue", name="p1", cpu=250, replicas=4, promise=True),
            at(60.0, "relabel", node="n0", disk="ssd", seconds=0.0),
            at(300.0, "relabel", node="n1", disk="hdd", seconds=0.0),
            at(314.0, "watch-lines", plural="pods", how="lost", chance=1.0, seconds=8.0),
            at(320.0, "restore", back=10.0, seconds=0.5),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a page in place of earlier evictions",
        "200 with a proxy's page raised DecodeError out of the term of a new leader, and ended the evictor (seed"
        " 53074)",
        scene(
            "page for earlier evictions",
            at(100.0, "requests", what="list events", chance=1.0, seconds=40.0, code=200, page=True),
            *(at(100.0, "kill", who=f"evictor-{machine}", seconds=1.0) for machine in "ab"),
            cast=(EVICTOR,),
        ),
    ),
    Found(
        "a refusal of which nothing tells, of a claim that a gang shares",
        "the pods of the gang waited for ten minutes for the watch to show who had changed the claim, and nobody had"
        " (seed 50410)",
        scenes_groups.REFUSED_TOGETHER,
    ),
    Found(
        "a node that is deleted, and there again with a backup whose versions have passed that",
        "it counted as deleted later than the version that every list showed, so it was not known for ever (seed"
        " 208560)",
        scene(
            "there again with a backup",
            at(200.5, "delete-node", node="n0", seconds=20.0, part=1.0),
            at(201.5, "restore", back=1.0, seconds=3.0),
            at(204.6, "want", namespace="blue", name="w1", cpu=100, replicas=20),
        ),
    ),
    Found(
        "a group that is made anew while its watch is behind",
        "a claim was reserved for the group that was gone, so it was freed, and the pods had no device (seed 201556)",
        scenes_groups.MADE_ANEW_UNSEEN,
    ),
    Found(
        "writes of claims that are always answered 500",
        "each was sent again as soon as the claim was found unchanged, four times a second for each pod",
        scene(
            "claims answered 500",
            at(9.0, "requests", what="patch resourceclaims", chance=1.0, seconds=60.0, code=500),
            at(10.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "victims that the API server does not let go",
        "that a victim stays counted as news, so whoever wanted its room was tried again at once, and for ever",
        scene(
            "victims answered 403",
            at(9.0, "requests", what="patch pods/status", chance=1.0, seconds=60.0, code=403),
            at(10.0, "want", namespace="blue", name="w0", cpu=1000, replicas=9),
            at(12.0, "want", namespace="green", name="w1", cpu=2000, replicas=2, priority="high"),
        ),
    ),
    Found(
        "pods that wait for their gang in the end",
        "no fault: they may for five minutes, and these were not over (seed 53368); the judge knows that now",
        scenes_groups.HELD_IN_THE_END,
    ),
    Found(
        "a leader whose watch of claims stood still before it led",
        "it gave two devices once more that the leader before had given, and bound the pods (beside seed 53545)",
        scene(
            "stale heir5",
            at(50.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=10, gated=True),
            at(62.0, "mute", plural="resourceclaims", part=0.5),
            at(63.0, "ungate"),
            at(75.0, "kill", who="berth-a", seconds=60.0),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a new leader whose watch of claims had lost events, and went on",
        "it gave two devices once more that the leader before had given (beside seed 1200769)",
        scene(
            "lost heir12",
            at(50.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=6, gated=True),
            at(62.0, "watch-lines", plural="resourceclaims", how="lost", chance=0.5, seconds=6.0),
            at(63.0, "ungate"),
            at(68.5, "kill", who="berth-a", seconds=60.0),
            at(80.0, "want", namespace="blue", name="d1", cpu=50, claims="own", replicas=6),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "the same, and claims can't be listed either for as long as it tries",
        "no fault: it gave no devices before its watch had shown its own writes",
        scene(
            "unlisted heir2",
            at(30.0, "want", namespace="blue", name="d1", cpu=50, claims="own", replicas=1),
            at(50.0, "want", namespace="blue", name="d0", cpu=50, claims="own", replicas=10, gated=True),
            at(61.0, "requests", what="list resourceclaims", chance=1.0, seconds=130.0, code=500),
            at(62.0, "watch-lines", plural="resourceclaims", how="lost", chance=1.0, seconds=130.0),
            at(63.0, "ungate"),
            at(75.0, "kill", who="berth-a", seconds=60.0),
            cast=(DEVICES,),
        ),
    ),
    Found(
        "a silent watch that is given up while the API server stands still",
        "no fault: the process had closed it, and the judge asked the server, which did not know that (seed 54148)",
        scene(
            "given up unheard",
            at(3.0, "policy", namespace="blue", name="m0", rule="stamp", app="w", seconds=0.0),
            at(112.0, "mute", plural="metadatapolicies", part=1.0),
            at(160.0, "freeze", seconds=60.0),
            cast=(POLICIES,),
        ),
    ),
    Found(
        "lists with a version that nobody gave",
        "no fault: kopf began its watch where a list said, which was a proxy's; it was told 410, and the next list said"
        " the same (seed 1609153)",
        scene(
            "false lists1",
            at(50.0, "compact"),
            at(52.0, "requests", what="list metadatapolicies", chance=1.0, seconds=100.0, code=200, strange=True),
            cast=(POLICIES,),
        ),
    ),
    Found(
        "an error in the watches of an operator that has just begun",
        "one of kopf's watchers forgot that it was cancelled, and kopf never ended: its replica went on leading without"
        " it for two minutes (seed 2001428)",
        scene(
            "endless1",
            at(30.0, "freeze", seconds=28.0),
            at(77.5, "error-event", code=504, part=1.0),
            at(175.5, "policy", namespace="green", name="m0", rule="reject", app="w0", seconds=0.0),
            cast=(POLICIES, DEVICES, GANGS, ZONES),
        ),
    ),
    Found(
        "a gang's pod whose claim has a device on a node that is full",
        "no fault: an earlier leader may have bound it there, so the claim keeps its device until that is known, which"
        " the judge of gangs did not know (seed 2011440)",
        Plan(
            "2011440",
            (
                ("n0", 4000, 12, "a"),
                ("n1", 2000, 12, "b"),
                ("n2", 2000, 12, "a"),
                ("n3", 4000, 6, "b"),
                ("n4", 4000, 12, "a"),
                ("n5", 2000, 110, "b"),
                ("n6", 1000, 110, "a"),
            ),
            (Clock(275584.7087139511, 1.0, 0.0), Clock(297405.1543949785, 1.005, 0.0)),
            20.0,
            (
                at(
                    12.664,
                    "want",
                    namespace="green",
                    name="g0",
                    groups="scheduling.x-k8s.io",
                    gang=4,
                    cpu=250,
                    gives_up=5,
                    claims="own",
                    replicas=7,
                ),
                at(
                    16.964,
                    "want",
                    namespace="blue",
                    name="g1",
                    groups="scheduling.x-k8s.io",
                    gang=6,
                    cpu=100,
                    gives_up=30,
                    replicas=6,
                ),
                at(168.632, "want", namespace="green", name="w4", cpu=500, scheduler="rival", replicas=4),
                at(205.945, "want", namespace="blue", name="w5", cpu=500, priority="high", replicas=10),
                at(228.745, "want", namespace="green", name="w4", cpu=500, scheduler="rival", replicas=7),
                at(297.174, "want", namespace="blue", name="w2", cpu=1500, replicas=5),
                at(
                    305.823,
                    "half-way",
                    namespace="blue",
                    name="g1",
                    groups="scheduling.x-k8s.io",
                    what="kill",
                    seconds=1.74,
                ),
                at(
                    309.352,
                    "half-way",
                    namespace="green",
                    name="g0",
                    groups="scheduling.x-k8s.io",
                    what="kill",
                    seconds=19.01,
                ),
                at(316.085, "delete-pods", count=3),
            ),
            (DEVICES, GANGS),
        ),
    ),
    Found(
        "room that another scheduler takes each time",
        "each Binding of another scheduler, which takes room, had a gang tried before its backoff was over, and nothing"
        " bounded how often (seed 1905655)",
        scenes_gangs.FOUGHT_FOR,
    ),
    Found(
        "room that another scheduler took a moment before",
        "no fault: its Binding was stored two milliseconds before ours was sent, and the judge counted its pod"
        " (seed 1725333)",
        Plan(
            "1725333",
            (
                ("n0", 1000, 110, "a"),
                ("n1", 4000, 110, "b"),
                ("n2", 2000, 6, "a"),
                ("n3", 2000, 110, "b"),
                ("n4", 1000, 12, "a"),
                ("n5", 1000, 6, "b"),
                ("n6", 1000, 110, "a"),
            ),
            (Clock(297322.0, 1.005, 0.0), Clock(297228.0, 1.005, 0.0)),
            8.0,
            (
                at(
                    3.228, "want", namespace="green", name="g0", groups="scheduling.k8s.io", gang=2, cpu=500, replicas=5
                ),
                at(3.88, "want", namespace="blue", name="w0", cpu=500, apart=True, replicas=6),
                at(10.272, "want", namespace="blue", name="e0", cpu=250, lasts=45, replicas=25),
                at(12.588, "want", namespace="blue", name="e1", cpu=250, lasts=20, replicas=25),
                at(
                    21.879, "want", namespace="blue", name="r0", groups="scheduling.k8s.io", cpu=600, gang=4, replicas=5
                ),
                at(
                    38.313,
                    "half-way",
                    namespace="green",
                    name="g0",
                    groups="scheduling.k8s.io",
                    what="room-taken",
                    seconds=15.32,
                ),
            ),
            ("policies", "gangs", "rooms"),
        ),
    ),
)
