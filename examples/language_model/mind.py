"""What the stand-in says: a mind that knows letters of customers, and a few words that an instruction may have.

It does what its instruction says and no more, finds what an instruction lacks, merges critiques, and rewrites an
instruction, at the first go carelessly.
"""

from __future__ import annotations

import re

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
#: What customers want, by a word of theirs.
KINDS = {
    "money back": "refund",
    "another one": "exchange",
    "repair": "repair",
    "refund": "refund",
    "exchange": "exchange",
}
#: By a word that an instruction has, or lacks: how to say it.
SKILLS = {
    "date": "Say to give the date.",
    "price": "Say to give the price.",
    "YYYY-MM-DD": "Say to write the date as YYYY-MM-DD.",
    "EUR": "Say to write the price as a number and EUR.",
    "semicolon": "Say to write the facts with a semicolon between them.",
}
_DATE = re.compile(rf"(\d+) ({'|'.join(MONTHS)}) (\d+)|(\d{{4}}-\d\d-\d\d)")
_PRICE = re.compile(r"(\d+) (?:euros|EUR)")


def desk(instruction: str, text: str) -> str:
    """Answer a text under an instruction."""
    if "<part>" in text:
        return _criticised(_inside("part", text), text)
    if "<critiques>" in text:
        return "\n".join(dict.fromkeys(_inside("critiques", text).splitlines()))
    if "<feedback>" in text:
        return _rewritten(text)
    return _done(instruction, text)


def _inside(tag: str, text: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else ""


def _done(instruction: str, text: str) -> str:
    """Do what an instruction says."""
    if "one word" in instruction:
        return "noted"
    facts = [next((kind for word, kind in KINDS.items() if word in text), "other")]
    date, price = _DATE.search(text), _PRICE.search(text)
    if "date" in instruction and date:
        day, month, year, iso = date.groups()
        written = iso or f"{year}-{MONTHS.index(month) + 1:02}-{int(day):02}"
        facts.append(written if "YYYY-MM-DD" in instruction else date[0])
    if "price" in instruction and price:
        facts.append(f"{price[1]} EUR" if "EUR" in instruction else price[0])
    return ("; " if "semicolon" in instruction else ", ").join(facts)


def _criticised(part: str, text: str) -> str:
    """Say what a part lacks, for the answer to be as the feedback wants it."""
    given, answer, feedback = (_inside(tag, text) for tag in ("input", "answer", "feedback"))
    lacks = [skill for skill in SKILLS if _wants(skill, feedback) and not _has(skill, answer)]
    if part == "input":
        said = [f"There is no {skill}." for skill in ("date", "price") if skill in lacks and not _has(skill, given)]
    else:
        instruction = _inside("instruction", text)
        said = [
            SKILLS[skill]
            for skill in lacks
            if skill not in instruction and (skill == "semicolon" or _has(_fact(skill), given))
        ]
    return "\n".join(said) or "NOTHING"


def _fact(skill: str) -> str:
    return {"YYYY-MM-DD": "date", "EUR": "price"}.get(skill, skill)


def _wants(skill: str, feedback: str) -> bool:
    return skill in feedback or _has(skill, feedback)


def _has(skill: str, text: str) -> bool:
    """Tell whether a text has what an instruction with this word would have put there."""
    date = _DATE.search(text)
    return {
        "date": date is not None,
        "price": _PRICE.search(text) is not None,
        "YYYY-MM-DD": date is not None and date[4] is not None,
        "EUR": " EUR" in text,
        "semicolon": ";" in text,
    }[skill]


def _rewritten(text: str) -> str:
    """Rewrite an instruction, two sentences at a time; throw all of it away where it is too much at once."""
    instruction, lines = _inside("instruction", text), _inside("feedback", text).splitlines()
    if len(lines) > 2 and not _inside("rejected", text):
        return "Answer in one word."
    said = [line.removeprefix("Say to ") for line in lines if line.startswith("Say to ")]
    return " ".join([instruction, *(one[0].upper() + one[1:] for one in said[:2])])
