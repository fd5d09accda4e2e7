r"""The scorer: every awkward form of an answer that its docstring decides, and the invariants of comparing numbers."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_dynamics.tasks import latex
from grpo_dynamics.tasks.numbers import agree, whole_number
from grpo_dynamics.tasks.scoring import Score, scorable, score, verifiable_reward


@pytest.mark.parametrize(
    ("content", "gold"),
    [
        ("18", "18"),
        ("18.0", "18"),
        ("18.00", "18"),
        ("18", "18.00"),
        ("$18", "18"),
        (r"\$18", "18"),
        (r"\$18.90", "18.9"),
        ("-$3", "-3"),
        ("1,234", "1234"),
        ("1{,}234", "1234"),
        (r"11,\! 111,\! 100", "11111100"),
        ("1234.", "1234"),
        ("**277**", "277"),
        ("079", "79"),
        ("$m+n = 79$", "79"),
        ("3 + 4 = 7", "7"),
        ("x = 5", "5"),
        ("x=5", "5"),
        ("-3", "-3"),
        ("\N{MINUS SIGN}3", "-3"),
        ("- 3", "-3"),
        ("5/2", "2.5"),
        ("2.5", "5/2"),
        (r"\frac{5}{2}", "2.5"),
        (r"-\dfrac52", "-2.5"),
        (r"\frac9{19}", "9/19"),
        (r"137 \frac{1}{2}", "137.5"),
        ("1 1/2", "1.5"),
        ("1/2 cup", "0.5"),
        (r"72 \text{ dollars}", "72"),
        (r"15\mbox{ cm}^2", "15"),
        (r"90^\circ", "90"),
        ("18 per day", "18"),
        (r"50\%", "50"),
        (r"50\%", "0.5"),
        ("50%", "1/2"),
        ("50", "50%"),
        ("0.5", "50%"),
        (".5", "0.5"),
        ("13/3", "4.33"),
        ("4.3333", "4.33"),
        ("0.333333", "1/3"),
    ],
)
def test_boxed_number_is_right(content, gold):
    assert score(rf"so \boxed{{{content}}}", gold) == Score(1.0, content, "box")


@pytest.mark.parametrize(
    ("content", "gold"),
    [
        ("19", "18"),
        ("18.01", "18"),
        ("1000001", "1000000"),
        ("0,1", "1"),
        ("0,1", "0.1"),
        ("1,2345", "12345"),
        ("3, 4", "4"),
        ("(3, 4)", "3"),
        ("7 or 3", "7"),
        (r"2\sqrt{3}", "2"),
        (r"3 \times 4", "3"),
        ("2x", "2"),
        ("3:4", "3"),
        ("seven", "7"),
        ("50", "0.5"),
        ("0.5%", "50%"),
        ("5/0", "5"),
        ("0.54", "0.5"),
        ("4.3", "4.33"),
        ("998.55", "998.5"),
        ("9" * 5000, "9"),
    ],
)
def test_boxed_number_is_wrong(content, gold):
    assert score(rf"\boxed{{{content}}}", gold) == Score(0.0, content, "box")


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("3+4=7 #### 7", Score(1.0, "7", "marker")),
        ("####7", Score(1.0, "7", "marker")),
        ("#### $7 per day\n\n#### 8 #### 7", Score(1.0, "7", "marker")),
        ("3+4=8 #### 8", Score(0.0, "8", "marker")),
        ("The answer is 7.", Score(1.0, "7", "marker")),
        ("The answer is 7. That is 3 more than 4", Score(1.0, "7", "marker")),
        ("the final answer is: **7** apples", Score(1.0, "7", "marker")),
        ("**Answer:** 7 apples and a pear", Score(1.0, "7", "marker")),
        ("The answer is 3 + 4 = 7 pens", Score(1.0, "7", "marker")),
        ("The answer to the question is 7", Score(1.0, "7", "marker")),
        ("Answer: 7. I hope the answer is clear.", Score(1.0, "7", "marker")),
        ("the answer is 8 \\boxed{7}", Score(1.0, "7", "box")),
        ("\\boxed{8} no, \\boxed{7}", Score(1.0, "7", "box")),
        ("put it in \\boxed{}: \\boxed{7}, as in \\boxed{ }", Score(1.0, "7", "box")),
        ("\\boxed{\\boxed{7}}", Score(1.0, "7", "box")),
        ("<think>\\boxed{8}</think> \\boxed{7}", Score(1.0, "7", "box")),
        ("perhaps 8</think>7", Score(1.0, "7", "last number")),
        ("3 + 4 is 7", Score(1.0, "7", "last number")),
        ("10-7", Score(1.0, "7", "last number")),
        ("it is -7", Score(0.0, "-7", "last number")),
        ("(1,2345)", Score(0.0, "2345", "last number")),
        ("it is 1,007", Score(0.0, "1,007", "last number")),
        # No answer: cut short, or none given.
        ("so \\boxed{7", Score(0.0, None, "none")),
        ("\\boxed{7} or rather \\boxed{\\frac{7}{", Score(0.0, None, "none")),
        ("3+4=7 ####", Score(0.0, None, "none")),
        ("<think>it is 7, \\boxed{7}", Score(0.0, None, "none")),
        ("no idea", Score(0.0, None, "none")),
        ("", Score(0.0, None, "none")),
    ],
)
def test_where_the_answer_is_found(completion, expected):
    assert score(completion, "7") == expected


@pytest.mark.parametrize(
    ("completion", "gold", "expected"),
    [
        (r"\boxed{\dfrac{14}{3}}", r"\frac{14}{3}", 1.0),
        (r"\boxed{2\cdot 5}", "10", 1.0),
        (r"\boxed{10}", r"2\cdot 5", 1.0),
        (r"\boxed{10,080}", r"10,\!080", 1.0),
        (r"\boxed{5}", "x=5", 1.0),
        (r"\boxed{2k}", "2", 0.0),
        (r"\boxed{2}", "2k", 0.0),
        (r"\boxed{q - p}", "p - q", 0.0),
        (r"\boxed{-q + p}", "p - q", 1.0),
        (r"\boxed{2x+3}", "y = 2x + 3", 1.0),
        (r"\boxed{-2, 1}", "1,-2", 1.0),
        (r"\boxed{1}", "1,-2", 0.0),
        (r"\boxed{(3,2)}", "(2,3)", 0.0),
        (r"\boxed{1} and then \boxed{2}", "1,2", 0.0),  # only the last box counts: the two do not merge into a set
        (r"\boxed{\text{(C)}}", r"\text{(C)}", 1.0),
        (r"The answer is $\frac{1}{2}$.", r"\frac{1}{2}", 1.0),
        (r"The answer is the value $\sqrt{2}$.", r"\sqrt{2}", 1.0),
        (r"The answer is 2k.", "2", 0.0),
        (r"The answer is 7 apples.", "7", 1.0),
        (r"#### \frac{1}{2}", "0.5", 1.0),
        (r"\boxed{\frac{1}{", r"\frac{1}{2}", 0.0),
        (r"\boxed{)(}", r"\frac{1}{2}", 0.0),
    ],
)
def test_latex(completion, gold, expected):
    assert score(completion, gold, "latex").reward == expected


def test_latex_off_the_main_thread():
    found = []
    worker = threading.Thread(target=lambda: found.append(score(r"\boxed{b+a}", "a+b", "latex")))
    worker.start()
    worker.join()
    assert found == [Score(1.0, "b+a", "box")]


def test_a_timeout_is_counted_and_not_called_found(monkeypatch):
    monkeypatch.setattr(latex, "equivalent", lambda gold, answer: None)
    assert score(r"\boxed{a}", "b", "latex") == Score(0.0, "a", "timeout")


def test_a_slow_comparison_times_out(monkeypatch):
    import math_verify

    def forever(*args, **kwargs):
        while True:
            pass

    monkeypatch.setattr(latex, "COMPARISON_SECONDS", 1)
    monkeypatch.setattr(math_verify.grader, "sympy_expr_eq", forever)
    assert latex.equivalent("a", "b") is None


def test_scorable():
    assert scorable("2,125") and scorable("-3") and scorable("1/4")
    assert not scorable("None") and not scorable("3 (pens); 4 (cups)") and not scorable("5:45")
    assert scorable(r"\left( 3, \frac{\pi}{2} \right)", "latex")
    assert not scorable("t(0,4]", "latex")


@pytest.mark.parametrize(("gold", "kind"), [("None", "number"), ("7", "text")])
def test_bad_input(gold, kind):
    with pytest.raises(ValueError, match=r"found .* expected"):
        score("7", gold, kind)


def test_reward_takes_strings_and_conversations_and_the_kind_of_each_row():
    columns = {"prompts": ["p", "p"], "answer": ["7", "8"], "kind": ["number", "number"]}
    assert verifiable_reward(completions=["#### 7"] * 2, trainer_state=None, **columns) == [1.0, 0.0]
    chats = [[{"role": "assistant", "content": text}] for text in ("#### 7", "\\boxed{8}")]
    assert verifiable_reward(completions=chats, **columns) == [1.0, 1.0]
    columns |= {"answer": ["\\frac{1}{2}", "8"], "kind": ["latex", "number"]}
    assert verifiable_reward(completions=["\\boxed{\\frac{2}{4}}", "8"], **columns) == [1.0, 1.0]


@given(st.integers(-(10**12), 10**12))
def test_an_integer_in_any_dress_is_itself_and_not_its_neighbour(value):
    for text in (str(value), f"{value:,}", f"{value}.00", f"${value}$", f"x = {value}", f"{value} apples"):
        found = whole_number(text)
        assert agree(found, whole_number(str(value)))
        assert not agree(found, whole_number(str(value + 1)))


@settings(deadline=None)  # the first formula imports math_verify
@given(st.text(max_size=60), st.sampled_from(["number", "latex"]))
def test_any_text_gets_a_score(text, kind):
    result = score(text, "7", kind)
    assert result.reward in (0.0, 1.0)
    assert (result.answer is None) == (result.found_by == "none")
