"""Every claim and its verdict in two sentences, for someone who trains with GRPO.

The first sentence says what is claimed, in everyday words. The second depends on the verdict, and where one verdict has
several reasons on the reason (`Finding.why`), and says what it means for what one would do. Neither names a number:
those stand beside them in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping

from grpo_dynamics.analysis.evidence import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTLY,
    REPRODUCED,
)

EXPLANATIONS: dict[str, tuple[str, Mapping[str, str | Mapping[str, str]]]] = {
    "C1": (
        "A curve of three phases (slow start, rapid rise, plateau) follows the reward of a GRPO run closely.",
        {
            REPRODUCED: "In every cell here it did, so use it to summarise the mean of your runs, but do not take a "
            "good fit as an explanation of the slow start.",
            PARTLY: "In most cells here it did but not in all, so look at what the curve misses before you read "
            "numbers off a fit.",
            NOT_REPRODUCED: "In too many cells here it did not, so do not summarise a run by this curve without "
            "checking the fit.",
            NOT_TESTED: "No cell here could be fitted, or the rewards are too noisy to tell, so this study gives no "
            "reason to use the curve or to avoid it.",
        },
    ),
    "C2": (
        "A curve that may start slowly describes a run better than an exponential, which rises fastest at its first "
        "step, and the difference is largest early in training.",
        {
            REPRODUCED: "Here it did in every cell, so do not judge the first part of a run by an exponential fit.",
            PARTLY: "Here it did in part or not clearly, so fit both to your own run and keep the simpler one where "
            "they are about as good.",
            NOT_REPRODUCED: "Here it did so in too few cells, and in the others there is no slow start to speak of, so "
            "the exponential, with one parameter less, is enough for runs like these.",
            NOT_TESTED: {
                "unfitted": "Here no cell could be fitted by both, so this study does not say whether runs start fast "
                "or slowly.",
                "open": "Here the rewards of too many cells leave open how slow the start is, so this study does not "
                "say whether runs start fast or slowly.",
            },
        },
    ),
    "C3": (
        "The reward at which training levels off is the same with few and with many completions per prompt.",
        {
            REPRODUCED: "Here it was, within the margin, so choose the group size by cost and noise and not for a "
            "higher final reward.",
            PARTLY: "Here it was, within the margin, for part of the comparisons, and the others may be within it or "
            "outside, so try two group sizes on your own model before you save on one.",
            NOT_REPRODUCED: "Here it was not in at least one comparison, so the group size can change the final "
            "reward and is worth a comparison before a long run.",
            NOT_TESTED: "The runs here cannot tell, so where the final reward matters compare two group sizes on your "
            "own task.",
        },
    ),
    "C4": (
        "On average, the whole reward curve is the same with few and with many completions per prompt.",
        {
            REPRODUCED: "Here it was, within the margin and all along the run, so a trial with small groups shows the "
            "average course of a run with large ones.",
            PARTLY: "Here it was, within the margin, for part of the comparisons, and the others may be within it or "
            "outside, so a trial with small groups is a rough guide to a run with large ones.",
            NOT_REPRODUCED: "Here it was not in at least one comparison, so do not take the course of a run with one "
            "group size for that with another.",
            NOT_TESTED: "The runs here cannot tell, so do not rely on a trial with another group size than the one "
            "that you will use.",
        },
    ),
    "C5": (
        "With equally many prompts per step, repeated runs differ less the more completions each prompt gets, with a "
        "variance that falls as one over the group size.",
        {
            REPRODUCED: "Here it did, so a larger group at equally many prompts makes a single run more repeatable, "
            "at proportionally higher cost.",
            PARTLY: "Here it probably did, on an assumption about how long a run remembers its luck, so expect a "
            "larger group to make runs more repeatable, but measure by how much.",
            NOT_REPRODUCED: "Here the scatter followed another rule, so estimate it from several seeds of your own "
            "instead of scaling it with the group size.",
            NOT_TESTED: "The scatter between the runs here is known too poorly to tell, so do not plan a number of "
            "seeds by this rule.",
        },
    ),
    "C6": (
        "A model that is trained on one task also gets better on benchmarks that it was not trained on.",
        {
            REPRODUCED: "Here every model did, on most benchmarks and on none clearly worse, so some gain elsewhere "
            "is to be expected, but how much has to be measured.",
            PARTLY: {
                "models": "Here at least one model did on average, but not surely every model, so evaluate each "
                "benchmark that you care about.",
                "losses": "Here every model did on average, but one lost on some benchmark, so evaluate each benchmark "
                "that you care about.",
                "gains": "Here every model did on average, but surely so on too few benchmarks, so evaluate each "
                "benchmark that you care about.",
            },
            NOT_REPRODUCED: "Here no model did on average, or by too little to matter, so do not count on training on "
            "one task to help with others.",
            NOT_TESTED: "No other benchmark was evaluated here, or too few problems and runs to tell, so measure it "
            "before you count on it.",
        },
    ),
    "C7": (
        "Training helps most on benchmarks that are like the training task, and less the farther they are from it.",
        {
            REPRODUCED: "Here it did for every model, so choose training problems that are close to what you want to "
            "improve.",
            PARTLY: "Here the gain fell for some models only, or about as clearly as many an arbitrary order of these "
            "benchmarks would have shown, so distance is a rough guide to where a gain will appear.",
            NOT_REPRODUCED: "Here it did for no model, and each gained more on benchmarks far from it, so do not infer "
            "from how alike a benchmark is how much it will gain.",
            NOT_TESTED: "There are too few benchmarks, problems or runs here to tell, or the gains do not differ, so "
            "this study does not say where to expect a gain.",
        },
    ),
    "C8": (
        "A model distilled from a reasoning model carries more of its gain over to other benchmarks than models that "
        "are not.",
        {
            REPRODUCED: "Here a distilled model clearly carried over most, so it is a good first choice where "
            "transfer matters, although its family may be the reason and not the distillation.",
            PARTLY: "Here a distilled model carried over most, but not clearly more than the next, so do not choose a "
            "model for this reason alone.",
            NOT_REPRODUCED: "Here another model clearly carried over more than any distilled one, so distillation by "
            "itself is no reason to expect better transfer.",
            NOT_TESTED: "Here no distilled model could be compared, too few models gained on the training task itself, "
            "or the order of the models stayed open, so this study gives no reason to prefer one.",
        },
    ),
    "C9": (
        "At ordinary settings training is stable, and the reward settles without swinging about its plateau.",
        {
            REPRODUCED: "Here it did in every run that could be judged, so if the reward of a similar run swings, "
            "suspect a learning rate or a reuse of samples beyond these settings.",
            PARTLY: "Here nothing became unstable, but swings could not be excluded in every run, so watch the "
            "gradient norm even at settings like these.",
            NOT_REPRODUCED: "Here runs became unstable or swung more often than chance explains, so lower the "
            "learning rate or refresh the samples more often than was done here.",
            NOT_TESTED: "No run here came near enough to a plateau to be judged, so train longer before you call such "
            "settings safe.",
        },
    ),
    "C10": (
        "In the bandit, the simplest model of GRPO, learning from older samples turns a smooth rise into one that "
        "overshoots and swings until it settles.",
        {
            REPRODUCED: {
                "": "Here it did, so if a reward swings, fresher samples are the remedy to try first, as far as your "
                "network behaves like the bandit.",
                "other schedules": "Here it did, but under another way to refresh the samples the exact onset moves "
                "the other way, so fresher samples are no sure remedy for a reward that swings.",
            },
            PARTLY: "Here it did in some sweeps only, so fresher samples are one remedy among others to try when a "
            "reward swings.",
            NOT_REPRODUCED: "Here it did not, so do not take a swinging reward as a sign of samples that are too old.",
            NOT_TESTED: "The age of samples was not varied here, so this study does not say what it does to the "
            "reward.",
        },
    ),
    "C11": (
        "In the bandit, training becomes unstable when curvature times learning rate times the steps between "
        "refreshes of the samples reaches one minus the momentum.",
        {
            REPRODUCED: "Here it did in every case, so this product tells how far learning rate, refresh interval and "
            "momentum may be raised together, as far as your network behaves like the bandit.",
            PARTLY: "Here it did in some cases and was off in others, so take it as a first guess and the exact "
            "thresholds (B2) for a decision.",
            NOT_REPRODUCED: "Here the limit lay elsewhere in every case, so use the exact thresholds (B2) in its "
            "place.",
            NOT_TESTED: "No limit was measured here, so keep a margin if you use this formula.",
        },
    ),
    "C12": (
        "In the bandit, the reward's random fluctuation about its plateau has a variance that falls as one over the "
        "group size.",
        {
            REPRODUCED: "Here it did, so twice as many completions for the same number of prompts halve that variance.",
            PARTLY: "Here it fell by this rule, within its tolerance, under some ways to refresh the samples at most, "
            "so take the rule as a rough estimate and the exact sums (B3) for a better one.",
            NOT_REPRODUCED: "Here it did not fall in this way, so do not use the rule to choose a group size.",
            NOT_TESTED: "Too few group sizes were simulated here to tell, so measure the fluctuation before you "
            "choose.",
        },
    ),
    "C13": (
        "Four groups of numbers in the training log tell apart four failures that can look alike on a reward curve: "
        "reward hacking, groups without a signal, a policy that narrows too far, and unstable steps.",
        {
            REPRODUCED: "Here every provoked failure was called by its name and healthy runs stayed silent, so "
            "let an alarm on a run of yours decide where you look first.",
            PARTLY: {
                "missed": "Here most provoked failures were called by their name but not all, and no more healthy runs "
                "raised alarms than allowed, so take the name of an alarm as a hint and read the evidence beside it.",
                "alarms": "Here every provoked failure was called by its name, but healthy runs raised alarms as well, "
                "so read the evidence beside an alarm before you act on it.",
                "both": "Here most provoked failures were called by their name but not all, and healthy runs raised "
                "alarms as well, so take an alarm as a hint and read the evidence beside it.",
            },
            NOT_REPRODUCED: "Here too many provoked failures were missed or called by another name, so do not act on "
            "an alarm alone.",
            NOT_TESTED: "Not all of these failures were provoked in the runs here, so take an alarm as a hint where to "
            "look and not as a diagnosis.",
        },
    ),
    "C14": (
        "The exponential that is usually fitted to rewards is what the three-phase curve turns into under strong "
        "damping.",
        {
            REPRODUCED: "It is, so a run that an exponential fits well does not contradict the theory: it may be "
            "strongly damped.",
            PARTLY: "The two approach each other, but not at the predicted rate, so take one for the other only where "
            "damping is very strong.",
            NOT_REPRODUCED: "The two do not approach each other steadily, so do not read an exponential fit as a "
            "limit of the theory.",
            NOT_TESTED: "Too few damping ratios were computed here to tell, so keep the two curves apart.",
        },
    ),
    "C15": (
        "The whole reward curve, of a network as of the bandit, can be computed beforehand from the settings and one "
        "measured curvature.",
        {
            REPRODUCED: "Here it could, for every network setting that was tried and for most of the bandit's, so one "
            "measured setting can spare you trial runs at settings like these.",
            PARTLY: "Here it could for a part of what was tried, or for the bandit alone, so use such a curve to "
            "narrow down the settings and a run to confirm them.",
            NOT_REPRODUCED: "Here it mostly could not, so make a trial run before you rely on a curve computed "
            "beforehand.",
            NOT_TESTED: "Nothing was predicted here, or the rewards are too noisy to tell, so this study gives no "
            "reason to rely on such a curve.",
        },
    ),
    "C16": (
        "How the speed of learning changes with a model's size follows from how the curvature changes with it.",
        {
            NOT_TESTED: "No curvature was measured in models of several sizes here, so do not carry settings from one "
            "size to another on its account.",
        },
    ),
    "B2": (
        "Exact thresholds say where the bandit becomes unstable and where it begins to swing, and show on which side "
        "the paper's short formula errs.",
        {
            HOLDS: "Here every measured threshold agreed, so decide by the exact ones: the short formula can be too "
            "strict and, where it is optimistic, too lax.",
            PARTLY: "Here most measured thresholds agreed, so prefer the exact ones to the short formula but keep a "
            "margin.",
            DOES_NOT_HOLD: "Here too many measured thresholds disagreed, so trust neither the exact ones nor the "
            "short formula without a measurement.",
            NOT_TESTED: "No threshold was measured here, so keep a margin whichever formula you use.",
        },
    ),
    "B3": (
        "With few completions per prompt, learning is weaker and noise differs from the paper's leading order, and "
        "exact sums over the possible groups say by how much.",
        {
            HOLDS: "Here they did, in the bandit and in the runs, so use the exact sums to foresee what a small group "
            "costs in speed and noise.",
            PARTLY: "Here they did in most respects but not in all, or were no clear improvement, so use them as a "
            "correction at small groups and check it on a run.",
            DOES_NOT_HOLD: {
                "bandit": "Here they failed in the bandit, so find out what a small group costs by a trial run.",
                "runs": "Here they failed in the runs but not in the bandit, so find out what a small group costs by a "
                "trial run.",
                "bandit and runs": "Here they failed in the bandit and in the runs, so find out what a small group "
                "costs by a trial run.",
            },
            NOT_TESTED: "The bandit or the runs could not be compared with them here, so use the sums for small "
            "groups only beside a trial run.",
        },
    ),
    "B4": (
        "Once one setting is measured, the theory predicts the reward curve at another learning rate better than "
        "assuming the same curve again.",
        {
            HOLDS: "Here it did in every case, so let it, and not the last run, tell you what to expect of a changed "
            "learning rate.",
            PARTLY: "Here it did in most cases, so use it to rank learning rates, and a run to confirm the one you "
            "choose.",
            DOES_NOT_HOLD: "Here it did in too few cases, so your last run is no worse a guide to a changed learning "
            "rate.",
            NOT_TESTED: "No run with another learning rate could be predicted here, so rely on trial runs instead.",
        },
    ),
    "B5": (
        "A curve that rises slowly at first because small success rates give little to learn from, and not because of "
        "momentum, describes a run as well as the theory's curve.",
        {
            HOLDS: "Here one always did, so do not read momentum or its settings off the slow start of a run.",
            PARTLY: "Here one did in most cells, so do not read momentum off a slow start unless your own run favours "
            "the theory's curve over such rivals.",
            DOES_NOT_HOLD: "Here none did in most cells, so the theory's curve earns its extra parameter as a "
            "description, though not yet as an explanation.",
            NOT_TESTED: "No cell here could be fitted, so this study does not say which curve to use.",
        },
    ),
}


def explain(id: str, verdict: str, why: str = "") -> str:
    """The two sentences of a claim and its verdict, for the reason `why` where the verdict has several.

    Raises
    ------
    ValueError
        When the claim, or this verdict on it for this reason, has no sentence.
    """
    if id not in EXPLANATIONS:
        raise ValueError(f"explanations: found none of the claim {id}, expected one for every registered claim")
    claim, meaning = EXPLANATIONS[id]
    if verdict not in meaning:
        raise ValueError(f"explanations: {id}: found no sentence for {verdict!r}, expected one of {', '.join(meaning)}")
    second = meaning[verdict]
    if not isinstance(second, str):
        if why not in second:
            raise ValueError(
                f"explanations: {id}, {verdict}: found no sentence for {why!r}, expected one of {[*second]}"
            )
        second = second[why]
    return f"{claim} {second}"
