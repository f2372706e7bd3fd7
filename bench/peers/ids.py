"""The comparison of id generators: who is asked, and how. `bench/peers/run BUILD --ids` calls it."""

import json
import os
import subprocess

from drivers import Peer, Toolchain, facts_of, prepare

FIGURES = ("ids_per_s", "cap", "ahead_ms", "p50_ns", "p99_ns", "p9999_ns", "max_ns", "clock_ns",
           "refused", "fell")


def peers_of(build, work):
    """(toolchains by language, peers)"""
    folder = work / "ids"
    go, ours = [folder / "go" / "ids-peer"], [build / "bench" / "holdfast_ids_peer"]
    java = ["java", "-cp", f"{folder}/java/target/classes:{folder}/java/target/dependency/*", "IdPeer"]
    toolchains = {
        "go": Toolchain("go", [["go", "-C", folder / "go", "build", "-o", "ids-peer", "."]]),
        "java": Toolchain("mvn", [["mvn", "-q", "-B", "-f", folder / "java" / "pom.xml", "package",
                                   "dependency:copy-dependencies"]]),
        "holdfast": Toolchain(str(ours[0]), []),
    }

    def peer(name, language, generator, command, version, **more):
        return Peer(name, "ids", language, generator, command, version, **more)

    slow = {"warmup": 2.0}  # The virtual machine compiles what is hot first.
    sony, yitter, uid = "sonyflake 2.2.0", "yitter-idgenerator 1.0.6", "com.xfvape.uid 0.0.4-RELEASE"
    return toolchains, [
        peer("Holdfast, Twitter's bits", "holdfast", "twitter", ours, "this tree"),
        peer("Holdfast, wide sequence", "holdfast", "wide", ours, "this tree"),
        peer("Holdfast, wide, 2 threads with blocks", "holdfast", "blocks", ours, "this tree"),
        peer("Holdfast, segments", "holdfast", "segments", ours, "this tree"),
        peer("sonyflake, its own bits", "go", "sonyflake", go, sony),
        peer("sonyflake, Twitter's bits", "go", "sonyflake-twitter", go, sony),
        peer("yitter, its own bits", "java", "yitter", java, yitter, **slow),
        peer("yitter, Twitter's bits", "java", "yitter-twitter", java, yitter, **slow),
        peer("UidGenerator, default", "java", "uid-default", java, uid, **slow),
        peer("UidGenerator, cached", "java", "uid-cached", java, uid, **slow),
        peer("Leaf", "java", "", [], "", missing=LEAF),
        peer("TinyID", "java", "", [], "", missing=TINYID),
    ]


# Only what their own registries have is compared.
LEAF = ("Maven Central has no com.sankuai.inf.leaf:leaf-core 1.0.1, nor leaf-core and leaf-boot-starter "
        "1.0.2-RELEASE of the fork com.tencent.devops.leaf; the project's issues 63, 83 and 123 ask for a package")
TINYID = ("Maven Central has no com.xiaoju.uemc.tinyid:tinyid-client 0.1.0; the project's issue 15 asks for a "
          "package")


def ask(peer, seconds):
    """One line of the driver: its figures are added to the peer's."""
    words = [*peer.command, "--generator", peer.lock, "--seconds", seconds, "--warmup", peer.warmup]
    # A call may wait for 2 s by design, and a virtual machine has to start.
    done = subprocess.run([str(word) for word in words], text=True, timeout=60 + 4 * seconds,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0 or not done.stdout:
        raise RuntimeError((done.stderr.strip().splitlines()[-1:] or ["no output"])[0])
    line = json.loads(done.stdout)
    for figure in FIGURES:
        if figure in line:
            peer.add(figure, line[figure])
    peer.add("layout", line["layout"])


def compare(build, options):
    """(facts, peers) of the id generators"""
    work = build / "peers"
    peers = prepare(work, ("ids",), *peers_of(build, work), options.only)
    rounds, seconds = (1, 0.5) if options.quick else (5, 3.0)
    loads = []
    for number in range(rounds):
        loads.append(os.getloadavg()[0])
        print(f"== ids: round {number + 1} of {rounds}, load {loads[-1]:.1f}", flush=True)
        for peer in peers:
            if peer.missing:
                continue
            try:
                ask(peer, seconds)
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"FAILED: {peer.name}: {error}", flush=True)
                peer.add("failures", str(error))
    return facts_of(peers, rounds, seconds) | {"loads": loads}, peers
