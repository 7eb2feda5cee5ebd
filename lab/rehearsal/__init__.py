"""Rehearsals: a plan of faults on a real cluster under load, judged by objectives that it states.

`lab.plan` reads what shall happen, `engine` lets it happen and writes down what was seen as one
timeline of events, `metrics` measures that timeline, `judgement` holds it against the objectives.
Reading, measuring and judging are pure: a run can be judged again from what was written down.
"""
