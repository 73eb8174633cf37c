"""Open MPI 4.1 in a container of a lab host: `mpirun` here, `orted` on every other host.

`mpirun` really reaches the other hosts: it runs the real `ssh` in its container, with the
configuration and keys that lie there, and what ssh starts on the other side has to be `orted`. A
program that the lab can run (`hostname`, `nvidia-smi`) then runs on each host; nccl-tests and
tf_cnn_benchmarks are the physics' to play, once every daemon has started.
Texts: Open MPI 4.1's plm_rsh, ras and rmaps.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Final

from pydantic import TypeAdapter

from components.core.errors import UsageError
from components.core.record import record
from lab.hosts.containers import CONTAINER_VARIABLE, MPI_BIN, ContainerHost
from lab.hosts.daemon_request import ask_daemon
from lab.hosts.docker_state import Container
from lab.hosts.stream_tools import Streams
from lab.hosts.tools.call import ToolCall, ToolResult
from lab.hosts.tools.options import split_options

LINE: Final = "-" * 74 + "\n"
VALUED: Final = ("-H", "-host", "--host", "-np", "-n", "--np", "-c", "-N", "-x", "--bind-to",
                 "-bind-to", "--map-by", "-map-by", "--hostfile", "-hostfile", "-wdir", "--wdir",
                 "--prefix", "-npernode", "--npernode")  # fmt: skip
FLAGS: Final = ("--allow-run-as-root", "--tag-output", "-tag-output", "--oversubscribe", "-q",
                "--quiet", "--report-bindings", "--display-map", "-v")  # fmt: skip
MCA: Final = ("-mca", "--mca", "-gmca", "--gmca")
DAEMON_DEADLINE_S: Final = 60.0
AS_ROOT: Final = LINE + (
    "mpirun has detected an attempt to run as root.\n\n"
    "Running as root is *strongly* discouraged as any mistake (e.g., in\n"
    "defining TMPDIR) or bug can result in catastrophic damage to the OS\n"
    "file system, leaving your system in an unusable state.\n\n"
    "We strongly suggest that you run mpirun as a non-root user.\n\n"
    "You can override this protection by adding the --allow-run-as-root\n"
    "option to your command line.  However, we reiterate our strong advice\n"
    "against doing so - please do so at your own risk.\n"
) + LINE  # fmt: skip
NO_DAEMON: Final = LINE + (
    "ORTE was unable to reliably start one or more daemons.\n"
    "This usually is caused by:\n\n"
    "* not finding the required libraries and/or binaries on\n"
    "  one or more nodes. Please check your PATH and LD_LIBRARY_PATH\n"
    "  settings, or configure OMPI with --enable-orterun-prefix-by-default\n\n"
    "* lack of authority to execute on one or more specified nodes.\n"
    "  Please verify your allocation and authorities.\n\n"
    "* the inability to write startup files into /tmp (--tmpdir/orte_tmpdir_base).\n"
    "  Please check with your sys admin to determine the correct location to use.\n\n"
    "* an inability to create a connection back to mpirun due to a\n"
    "  lack of common network interfaces and/or no route found between\n"
    "  them. Please check network connectivity (including firewalls\n"
    "  and network routing requirements).\n"
) + LINE  # fmt: skip


@record
class Slots:
    """One host of `-H`."""

    name: str
    slots: int


@record
class Job:
    """What mpirun tells its daemons."""

    id: str
    command: tuple[str, ...]
    env: dict[str, str]
    ranks: tuple[tuple[int, ...], ...]
    """Ranks of each host, in the order of `-H`."""
    played: bool
    """The physics plays the program; daemons only report that they are there."""


@record
class Rank:
    """What one process of a job did."""

    rank: int
    status: int
    out: str
    err: str


@record
class Report:
    """What one daemon says of its host."""

    node: str
    hostname: str
    ranks: tuple[Rank, ...] = ()
    rank_env: dict[str, str] = field(default_factory=dict[str, str])
    """Of a played program: what the script before it set on this host."""


@record
class Request:
    """A command line of mpirun, taken apart."""

    hosts: tuple[Slots, ...]
    count: int
    env: dict[str, str]
    mca: tuple[str, ...]
    command: tuple[str, ...]
    tagged: bool


_JOB = TypeAdapter(Job)
_REPORT = TypeAdapter(Report)
_PROBE_RESULT = TypeAdapter(dict[str, object])


def parse(call: ToolCall) -> Request | ToolResult:
    """Read the command line; a ToolResult is Open MPI's refusal."""
    mca, rest = _split_mca(call.argv)
    options = split_options(rest, VALUED, FLAGS, mixed=False)
    if isinstance(options, str):
        text = f"mpirun: Error: unknown option \"{options}\"\nType 'mpirun --help' for usage.\n"
        return call.unmodelled(ToolResult(213, err=text))
    if call.uid == 0 and not options.has("--allow-run-as-root"):
        return ToolResult(1, err=AS_ROOT)
    if not options.words:
        return ToolResult(1, err=f"{LINE}mpirun could not find anything to do.\n{LINE}")
    listed = ",".join(options.all("-H", "-host", "--host")).split(",")
    hosts = tuple(
        Slots(name, int(slots) if slots.isdigit() else 1)
        for name, _, slots in (word.partition(":") for word in listed if word)
    ) or (Slots(call.model.hostname, 1),)
    total = sum(host.slots for host in hosts)
    count = int(options.last("-np", "-n", "--np", "-c", default=str(total)).strip())
    if count > total and not options.has("--oversubscribe"):
        return ToolResult(1, err=_too_many(count, options.words[0]))
    env: dict[str, str] = {}
    for text in options.all("-x"):
        name, sign, value = text.partition("=")
        env[name] = value if sign else call.env.get(name, "")
    tagged = options.has("--tag-output", "-tag-output")
    return Request(hosts, count, env, mca, options.words, tagged)


def _split_mca(argv: tuple[str, ...]) -> tuple[tuple[str, ...], list[str]]:
    """Take `--mca NAME VALUE` out of the options; what follows the program stays."""
    mca: list[str] = []
    rest = list(argv)
    place = 0
    while place < len(rest) and rest[place].startswith("-"):
        if rest[place] in MCA and place + 2 < len(rest):
            mca += ["-mca", rest[place + 1], rest[place + 2]]
            del rest[place : place + 3]
        elif rest[place] in VALUED:
            place += 2
        else:
            place += 1
    return tuple(mca), rest


def _too_many(count: int, program: str) -> str:
    return (
        f"{LINE}There are not enough slots available in the system to satisfy the {count}\n"
        f"slots that were requested by the application:\n\n  {program}\n\n"
        "Either request fewer slots for your application, or make more slots\n"
        f"available for use.\n{LINE}"
    )


def place_ranks(hosts: tuple[Slots, ...], count: int) -> tuple[tuple[int, ...], ...]:
    """Ranks of each host: a host's slots are filled before the next host's (`--map-by slot`)."""
    ranks: list[tuple[int, ...]] = []
    following = 0
    for host in hosts:
        take = min(host.slots, count - following)
        ranks.append(tuple(range(following, following + take)))
        following += take
    return tuple(ranks)


def split_script(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`sh -c TEXT NAME PROGRAM…`: the script and its name, and the program that it is given."""
    at = 4 if command[0].endswith("sh") and command[1:2] == ("-c",) else 0
    return command[:at], command[at:]


def rank_variables(rank: int) -> dict[str, str]:
    """What Open MPI puts into a rank's environment."""
    return {"OMPI_COMM_WORLD_RANK": str(rank)}


def is_played(command: tuple[str, ...]) -> bool:
    """The program needs GPUs and a network: the physics plays it."""
    _, program = split_script(command)
    return any(word.endswith("_perf") for word in program[:1]) or any(
        word.endswith("tf_cnn_benchmarks.py") for word in program
    )


def daemon_command(job: Job, vpid: int, address: str, mca: tuple[str, ...]) -> str:
    """What Open MPI's rsh launcher asks the other host's shell to run."""
    extra = " ".join(f'"{word}"' if "," in word or "^" in word else word for word in mca)
    return (
        f"PATH={MPI_BIN}:$PATH ; export PATH ; "
        "LD_LIBRARY_PATH=/usr/local/mpi/lib:$LD_LIBRARY_PATH ; export LD_LIBRARY_PATH ; "
        "DYLD_LIBRARY_PATH=/usr/local/mpi/lib:$DYLD_LIBRARY_PATH ; export DYLD_LIBRARY_PATH ;   "
        f'{MPI_BIN}/orted -mca ess "env" -mca ess_base_jobid "{job.id}" -mca ess_base_vpid {vpid} '
        f'-mca ess_base_num_procs "{len(job.ranks)}" '
        f'-mca orte_node_regex "host[1:1-{len(job.ranks)}]@0({len(job.ranks)})" '
        f'-mca orte_hnp_uri "{job.id}.0;tcp://{address}:45133" -mca plm "rsh" --tree-spawn '
        f'-mca routed "radix" {extra} -mca pmix "^s1,s2,cray,isolated"'
    )


class OpenMpi:
    """The MPI tools of one host's containers."""

    def __init__(self, host: ContainerHost) -> None:
        """Act on `host`."""
        self._host = host
        self._jobs = host.lab / "mpi"

    def _container(self, call: ToolCall) -> Container | None:
        return self._host.state().containers.get(call.env.get(CONTAINER_VARIABLE, ""))

    def _environment(self, container: Container) -> dict[str, str]:
        image = self._host.state().images.get(container.image)
        return self._host.environment(container, image)

    async def mpirun(self, call: ToolCall, _: Streams) -> ToolResult:
        """`mpirun -H HOSTS -np N [-x NAME=VALUE] PROGRAM…`."""
        request = parse(call)
        if isinstance(request, ToolResult):
            return request
        container = self._container(call)
        if container is None:
            return call.unmodelled(ToolResult(1, err="mpirun: the lab has it in containers only\n"))
        ranks = place_ranks(request.hosts, request.count)
        number = str(secrets.randbelow(1 << 16) << 16)
        job = Job(number, request.command, request.env, ranks, is_played(request.command))
        self._jobs.mkdir(exist_ok=True)
        file = self._jobs / f"{job.id}.json"
        file.write_bytes(_JOB.dump_json(job))
        try:
            reports = await self._launch(container, job, request)
            if isinstance(reports, ToolResult):
                return reports
            if job.played and not any(report.ranks for report in reports):
                return await self._play(call, request, reports)
            return merge(reports, tagged=request.tagged)
        finally:
            for each in self._jobs.glob(f"{job.id}*"):
                each.unlink()

    async def _launch(
        self, container: Container, job: Job, request: Request
    ) -> list[Report] | ToolResult:
        """Start a daemon on every host that has ranks, and wait for what they report."""
        used = [i for i, ranks in enumerate(job.ranks) if ranks]
        env = self._environment(container)
        answers = await asyncio.gather(*(
            self._reach(container, job, request, index, env) for index in used
        ))  # fmt: skip
        errors = "".join(answer for answer in answers if isinstance(answer, str))
        if errors:
            return ToolResult(1, err=errors)
        return [answer for answer in answers if isinstance(answer, Report)]

    async def _reach(
        self,
        container: Container,
        job: Job,
        request: Request,
        index: int,
        env: Mapping[str, str],
    ) -> Report | str:
        name = request.hosts[index].name
        if self._is_here(name):
            return await self._run_ranks(container, job, index)
        command = daemon_command(job, index, self._host.model.config.address, request.mca)
        try:
            async with asyncio.timeout(DAEMON_DEADLINE_S):
                status, _, err = await self._host.output(
                    container, ["ssh", "-x", "-o", "BatchMode=yes", name, command], env
                )
        except TimeoutError:
            status, err = 255, f"ssh: connect to host {name}: Connection timed out\n"
        report = self._jobs / f"{job.id}.{index}.json"
        if status != 0 or not report.exists():
            return err + NO_DAEMON
        return _REPORT.validate_json(report.read_bytes())

    def _is_here(self, name: str) -> bool:
        """The host is this one, by name or by any of its addresses."""
        model = self._host.model
        own = {model.hostname, model.config.name, model.config.address, "localhost"}
        own |= {cidr.partition("/")[0] for nic in model.nics for cidr in nic.addresses}
        return name in own or self._resolve(name) in own

    def _resolve(self, name: str) -> str:
        for line in (self._host.root / "etc/hosts").read_text().splitlines():
            words = line.partition("#")[0].split()
            if name in words[1:]:
                return words[0]
        return name

    async def orted(self, call: ToolCall, _: Streams) -> ToolResult:
        """The daemon: run this host's ranks of the job, and report."""
        mca = dict(zip(call.argv[1::1], call.argv[2::1], strict=False))
        number, vpid = mca.get("ess_base_jobid", ""), mca.get("ess_base_vpid", "")
        file = self._jobs / f"{number}.json"
        container = self._container(call)
        if not (number.isdigit() and vpid.isdigit() and file.exists()) or container is None:
            return ToolResult(1, err="[orted] a daemon without a job: nothing to connect to\n")
        job = _JOB.validate_json(file.read_bytes())
        report = await self._run_ranks(container, job, int(vpid))
        (self._jobs / f"{job.id}.{vpid}.json").write_text(json.dumps(asdict(report)))
        return ToolResult()

    async def _run_ranks(self, container: Container, job: Job, index: int) -> Report:
        model = self._host.model
        env = self._environment(container) | job.env
        if job.played:
            return await self._prepare(container, job, job.ranks[index][0], env)
        done: list[Rank] = []
        for rank in job.ranks[index]:
            answer = await self._host.output(container, job.command, env | rank_variables(rank))
            done.append(Rank(rank, *answer))
        return Report(model.config.name, model.hostname, tuple(done))

    async def _prepare(
        self, container: Container, job: Job, rank: int, env: dict[str, str]
    ) -> Report:
        """Run the script before a played program, with `env` in its place; report what failed."""
        model = self._host.model
        script, _ = split_script(job.command)
        if not script:
            return Report(model.config.name, model.hostname)
        env = env | rank_variables(rank)
        status, out, err = await self._host.output(container, (*script, "env"), env)
        if status != 0:
            return Report(model.config.name, model.hostname, (Rank(rank, status, out, err),))
        own = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("NCCL_"))
        return Report(model.config.name, model.hostname, rank_env=own)

    async def _play(self, call: ToolCall, request: Request, reports: list[Report]) -> ToolResult:
        by_index = dict(enumerate(reports))
        pods: list[object] = [
            {
                "name": report.hostname,
                "node": report.node,
                "gpus": request.hosts[index].slots,
                "env": request.env,
                "rank_env": report.rank_env,
                "host_network": True,
                "command": [*request.command],
            }
            for index, report in by_index.items()
        ]
        model = call.model
        launcher = {
            "name": model.hostname,
            "node": model.config.name,
            "env": request.env,
            "host_network": True,
            "command": ["mpirun", *call.argv],
        }
        body: dict[str, object] = {
            "op": "run_probe", "kind": "mpirun", "pods": pods, "launcher": launcher,
        }  # fmt: skip
        try:
            answer = _PROBE_RESULT.validate_python(await ask_daemon(self._host.control, body))
        except UsageError as error:
            return call.unmodelled(ToolResult(1, err=f"mpirun: not played: {error}\n"))
        return ToolResult(int(str(answer["exit_code"])), str(answer["log"]))


def merge(reports: list[Report], *, tagged: bool) -> ToolResult:
    """The output of all ranks in their order, and mpirun's own words when one failed."""
    ranks = sorted((rank for report in reports for rank in report.ranks), key=lambda r: r.rank)
    out = "".join(_tag(rank.out, f"[1,{rank.rank}]<stdout>:", tagged=tagged) for rank in ranks)
    err = "".join(_tag(rank.err, f"[1,{rank.rank}]<stderr>:", tagged=tagged) for rank in ranks)
    failed = next((rank for rank in ranks if rank.status), None)
    if failed is None:
        return ToolResult(0, out, err)
    text = (
        f"{LINE}Primary job  terminated normally, but 1 process returned\n"
        f"a non-zero exit code. Per user-direction, the job has been aborted.\n{LINE}"
    )
    return ToolResult(failed.status, out, err + text)


def _tag(text: str, mark: str, *, tagged: bool) -> str:
    return "".join(f"{mark}{line}\n" for line in text.splitlines()) if tagged else text
