"""The tables and figures of five papers, regenerated with lssvm: ``python -m papers [name] [--quick]``.

Every module has ``run(page, quick, progress)``: it writes tables, pictures and claims, each with the published value,
ours and a verdict, to a `papers.page.Page`. docs/papers.md is what a full run wrote.
"""
