"""A notebook for marimo: what a shuffled survey costs, with sliders (``marimo edit examples/budget_marimo.py``)."""
# mypy: ignore-errors

import marimo

app = marimo.App(width="medium", app_title="What a shuffled survey costs")


@app.cell
def _():
    import marimo as mo

    import shoal
    from shoal.digits import rounded_up

    return mo, rounded_up, shoal


@app.cell
def _(mo):
    local_epsilon = mo.ui.slider(0.25, 6, step=0.25, value=2, label="ε₀ of one report")
    people = mo.ui.slider(steps=[10**k for k in range(2, 9)], value=10**5, label="people")
    rounds = mo.ui.slider(1, 365, value=30, label="rounds")
    mo.vstack([mo.md("# What a shuffled survey costs"), local_epsilon, people, rounds])
    return local_epsilon, people, rounds


@app.cell
def _(local_epsilon, people, rounds, shoal):
    curve = shoal.amplify(local_epsilon=local_epsilon.value, reports=people.value)
    together = curve.repeated(rounds.value)
    return curve, together


@app.cell
def _(curve, mo, rounded_up, rounds, together):
    one, all_of_them = (rounded_up(each.epsilon(1e-6), 4) for each in (curve, together))
    answer = f"One round has ε = {one} at δ = 1e-6, and {rounds.value} have {all_of_them}."
    mo.vstack([mo.md(answer), mo.Html(curve._repr_html_())])
    return (answer,)


if __name__ == "__main__":
    _, definitions = app.run()
    print(definitions["answer"])
