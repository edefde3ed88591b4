"""geoveil rehearse: a campaign on this machine, answered by simulated people."""

from geoveil.analyst import PlannedQuestion
from geoveil.cli.asking import asks, asks_statistics
from geoveil.cli.console import err, number, out
from geoveil.cli.options import options_of, takes
from geoveil.cli.results import OutputFormat, formed
from geoveil.simulation.rehearsal import RehearsalRequest


@formed
@asks_statistics
@asks
@takes("request", options_of(RehearsalRequest), RehearsalRequest)
def rehearse(*, request: RehearsalRequest, form: OutputFormat) -> None:
    """Try a campaign before anybody takes part: simulated people answer it on this machine.

    The command plans the campaign, publishes it on a temporary server, lets one simulated device
    per person answer, and prints the estimates. Questions alone (--threshold, --range, --place,
    --circle, --region) get the mechanism that 'geoveil plan' would choose; with statistics, each
    person sends one perturbed value, which answers all of them.

    Example: geoveil rehearse people.csv --value income --unit dollar --per 8000 --curve --plot
    curve.png

    Example: geoveil rehearse incomes --per 8000 --threshold 100000
    """
    with err.status("planning"):
        planned = request.planned()
    if isinstance(planned, PlannedQuestion) and not form.quiet:
        report = planned.report()
        error = report["alternatives"][0]["error_95"]
        err.tell(f"The plan: {report['choice']}; the 95 % interval should be ±{number(error)}.")
    with err.status(f"{request.count:,} people take part"):
        results = request.results(planned)
    form.show(*results)
    if not (form.quiet or form.as_json or form.as_csv):
        out.paragraphs(*request.truths())
