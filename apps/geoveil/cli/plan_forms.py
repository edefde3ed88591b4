"""geoveil plan --form: the errors of a form's statistics, and its fields' shares of ε."""

from collections.abc import Sequence
from pathlib import Path

from geoveil.analyst import PlannedForm, Wish, form_plan, sample_of, toml_of, whole_file
from geoveil.cli.console import err, print_json
from geoveil.cli.form import fields_in
from geoveil.cli.plan_text import print_form
from geoveil.cli.relations_words import of_each
from geoveil.gp import ParameterError


def of_form(
    form: Path | None,
    prior_sample: Path | None,
    wishes: Sequence[Wish],
    epsilon_sum: float | None,
    participants: int | None,
    out_file: Path | None,
    *,
    as_json: bool,
) -> bool:
    """Print and write the plan of a form; return whether one was given."""
    if form is None:
        said: dict[str, object] = {"prior-sample": prior_sample, "epsilon-sum": epsilon_sum}
        said |= {"statistics": [wish.text for wish in wishes] or None}
        for name, value in said.items():
            if value is not None:
                raise ParameterError(name, value, "left out where there is no --form")
        return False
    fields = fields_in(form)
    if prior_sample is None:
        raise ParameterError("prior-sample", None, "given, with --form")
    if participants is None and not any(wish.error for wish in wishes):
        raise ParameterError("participants", None, "given, or a statistic with an error: '@ERROR'")
    with err.status("planning"):
        sample = sample_of(fields, prior_sample)
        planned = PlannedForm(fields, sample, tuple(wishes) or tuple(of_each(fields)))
        if epsilon_sum is not None:
            planned = planned.shared_out(epsilon_sum)
        report = form_plan(planned, participants, epsilon_sum)
    if out_file is not None:
        with whole_file("out", out_file) as beside:
            beside.write_text(toml_of(planned.fields), encoding="utf-8")
    if as_json:
        print_json(report)
        return True
    print_form(report)
    if out_file is not None:
        err.tell(f"wrote {out_file}: a form for geoveil campaign create --form")
    return True
