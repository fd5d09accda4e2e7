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
        (r"18~\text{apples}", "18"),
        (r"18\quad\text{apples}", "18"),
        (r"18\qquad", "18"),
        ("{18}", "18"),
        ("{{18}}", "18"),
        (r"\underline{18}", "18"),
        (r"\underline{\text{18 apples}}", "18"),
        ("\N{EN DASH}5", "-5"),
        ("5¢", "5"),
        ("18 €", "18"),
        (r"\pounds18", "18"),
        (r"\pounds 18", "18"),
        ("USD 18", "18"),
        ("Rs. 18", "18"),
        ("-Rs.18", "-18"),
        ("10 000", "10000"),
        ("10~000", "10000"),
        ("1 234 567.5", "1234567.5"),
        ("1,000 1/2", "1000.5"),
        (r"\text{Answer: } 7", "7"),
        ("Answer: 7", "7"),
        ("Answer: 3 1/2", "3.5"),
        (r"\text{The answer is } 7", "7"),
        (r"\text{The answer is } -7", "-7"),
        (r"\text{Janet makes } \$18", "18"),
        (r"\text{Janet makes } \$18 \text{ a day}.", "18"),
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
        ("5¢", "0.05"),
        ("10 00", "10"),
        ("10 0000", "100000"),
        ("3 4", "3"),
        ("3 4", "34"),
        ("2{3}", "23"),
        ("2^{3}", "23"),
        ("{3}, {4}", "3"),
        ("minus 7", "7"),
        ("at least 7", "7"),
        ("half of 7", "7"),
        ("7 or so, maybe 8", "7"),
        ("either 8 or 7", "7"),
        ("Tom has 8 and Ann has 7", "7"),
        ("Tom has eight, Ann has 7", "7"),
        (r"\text{Tom: }7, \text{Ann: }8", "7"),
        (r"\text{Answer: } 2\sqrt{7}", "2"),
        ("x 7", "7"),
        (r"\sin 7", "7"),
        ("18" + " " * 5000 + "#", "18"),
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
        ("it is \N{EN DASH}7", Score(0.0, "-7", "last number")),
        ("5\N{EN DASH}7", Score(1.0, "7", "last number")),
        ("The answer is Rs. 7. That is 3 more", Score(1.0, "7", "marker")),
        # A heading is no marker; an answer behind #### at the start of a line is.
        ("#### Conclusion\nShe has 7 apples.", Score(1.0, "7", "last number")),
        ("#### 1. Calculate 3+4\n#### 2. Then 8\nThe total is 7", Score(1.0, "7", "last number")),
        ("#### **2. Then 8**\nThe total is 7", Score(1.0, "7", "last number")),
        ("#### 2) x = 8\nThe total is 7", Score(1.0, "7", "last number")),
        ("##### 2: Add 8\nThe total is 7", Score(1.0, "7", "last number")),
        ("#### Step 2\nThe answer is 7. It was 8", Score(1.0, "7", "marker")),
        ("#### 1. Add\n3+4=7\n#### 7\nCheck: 8-1", Score(1.0, "7", "marker")),
        ("#### **Answer:** 7\nCheck: 8-1", Score(1.0, "7", "marker")),
        ("so\n#### 7 apples, as asked\nor 8", Score(1.0, "7", "marker")),
        ("#### USD 7\nor 8", Score(1.0, "7", "marker")),
        ("#### Total = 7\nor 8", Score(1.0, "7", "marker")),
        ("#### -7.\nor 7", Score(0.0, "-7", "marker")),
        ("####\n7\nor 8", Score(1.0, "7", "marker")),
        # Nothing behind ####: a marker before it counts, a number does not.
        ("The final answer is 7 apples. ####", Score(1.0, "7", "marker")),
        ("#### 7 ####", Score(1.0, "7", "marker")),
        ("#### Sum\n3+4=7 ####", Score(0.0, None, "none")),
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
    ("completion", "found", "found_by"),
    [
        ("answer: 3 1/2", "3 1/2", "marker"),
        ("**Answer:** 3 1/2 cups", "3 1/2", "marker"),
        (r"the answer is $3\frac{1}{2}$", "3 1/2", "marker"),
        ("she needs 3 1/2 cups", "3 1/2", "last number"),
    ],
)
def test_a_mixed_number_in_running_text(completion, found, found_by):
    assert score(completion, "3.5") == Score(1.0, found, found_by)


def test_numbers_on_two_lines_are_no_mixed_number():
    assert score("Step 3\n1/2", "0.5") == Score(1.0, "1/2", "last number")
    assert score("1,234 1/2", "1234.5") == Score(1.0, "1,234 1/2", "last number")


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
        # The full stop of the sentence.
        (r"\boxed{\frac{3\sqrt{3}}{4}.}", r"\frac{3\sqrt{3}}{4}", 1.0),
        (r"\boxed{p-q.}", "p - q", 1.0),
        (r"\boxed{q-p.}", "p - q", 0.0),
        (r"\boxed{\text{Evelyn}.}", r"\text{Evelyn}", 1.0),
        # Words behind and around the answer.
        (r"The answer is $\frac{1}{2}$, which is what we wanted.", r"\frac12", 1.0),
        (r"The answer is $$\sqrt{2}$$ as we wanted.", r"\sqrt{2}", 1.0),
        (r"The answer is \(\sqrt{2}\), as we wanted.", r"\sqrt{2}", 1.0),
        (r"The answer is \sqrt{2} because it is irrational.", r"\sqrt{2}", 1.0),
        (r"The answer is $f(x)=2x$ where $x>0$", "2x", 1.0),
        (r"The answer is $3x$ where $x>0$", "2x", 0.0),
        ("The answer is 12, since $3x$ is 12", "12", 1.0),
        ("The answer is that there are 12 ways", "12", 1.0),
        ("The answer is that there are 13 ways", "12", 0.0),
        ("The answer is that there are 12 ways to choose 3 of them", "12", 1.0),
        ("The answer is 12 because 3 times 4 is 12.", "12", 1.0),
        ("The answer is 13 because 3 times 4 is 12.", "12", 0.0),
        # Several answers are a set, whatever joins them.
        ("The answer is $3$ and $4$.", "3,4", 1.0),
        ("The answer is $3$, $4$, or $5$, which are all.", "3,4,5", 1.0),
        ("The answer is $3$ or $4$.", "3", 0.0),
        ("The answer is 3, or 4.", "3", 0.0),
        ("The answer is that it is 3 or 4.", "3", 0.0),
        ("The answer is n plus 12", "12", 0.0),
        ("The answer is that we have 12k ways", "12", 0.0),
        # Headings.
        ("#### Conclusion\nThe answer is $2x$.\n#### Remark\nnone", "2x", 1.0),
        ("#### 2. Case $x > 0$\nso 12", "12", 1.0),
        ("#### $2x$\n12", "2x", 1.0),
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
